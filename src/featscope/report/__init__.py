"""Figures from rows, and the page that shows runs and the ledger."""
