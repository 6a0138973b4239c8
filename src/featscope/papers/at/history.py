"""Claims of which a rule, a reading or a setting was changed after numbers were seen: their headings in
docs/rules-history.md."""

from __future__ import annotations

from featscope.claims.history import anchors

RULES_HISTORY = anchors(
    "AT-LB.2",
    "AT-LD.11",
    "AT-LD.23",
    "AT-P3.2",
    "AT-L5.2",
    "AT-LD.3",
    "AT-LD.21",
    "AT-LD.26",
    "AT-T4.3",
    "AT-T4.4",
    "AT-LE.2",
    "AT-T1",
    "AT-F4",
    "AT-T2",
)
