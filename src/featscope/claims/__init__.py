"""What a claim is: statement, readings, verdicts, and the ledger of all of them."""

from featscope.core.doors import callable_package

callable_package(__name__)
