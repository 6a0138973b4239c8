"""Claims of which a rule, a reading or a setting was changed after numbers were seen: their headings in
docs/rules-history.md."""

from __future__ import annotations

from featscope.claims.history import anchors

RULES_HISTORY = anchors(
    "FA-F2",
    "FA-F3",
    "FA-F5",
    "FA-F6",
    "FA-F7",
    "FA-F8",
    "FA-F9",
    "FA-LB.1",
    "FA-LC.5",
    "FA-L5.5",
    "FA-LC.10",
    "FA-T4.5",
    "FA-T4.6",
    "FA-T4.7",
    "FA-LB.24",
    "FA-F2cd",
    "FA-F10",
    "FA-F3mc",
)
