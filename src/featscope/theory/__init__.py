"""The papers' statements as claims, judged from rows."""
