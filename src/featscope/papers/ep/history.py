"""Claims of which a rule, a reading or a setting was changed after numbers were seen: their headings in
docs/rules-history.md."""

from __future__ import annotations

from featscope.claims.history import anchors

RULES_HISTORY = anchors(
    "EP-f*",
    "EP-lower",
)
