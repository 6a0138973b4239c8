"""Style and helpers that every figure uses."""
