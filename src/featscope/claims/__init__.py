"""What a claim is: statement, readings, verdicts, and the ledger of all of them."""
