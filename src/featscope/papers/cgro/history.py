"""Claims of which a rule, a reading or a setting was changed after numbers were seen: their headings in
docs/rules-history.md."""

from __future__ import annotations

from featscope.claims.history import anchors

RULES_HISTORY = anchors(
    "CG-T4.1",
    "CG-LC.10",
    "CG-L4.4",
    "CG-L4.2",
    "CG-T5.2",
    "CG-C",
    "CG-F1",
    "CG-F2",
    "CG-F3",
    "CG-E.1",
    "CG-E.2",
)
