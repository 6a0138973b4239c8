"""Where it is told that a claim's rule, reading or setting was changed after numbers were seen."""

from __future__ import annotations

import re


def anchors(*ids: str) -> dict[str, str]:
    """Each claim's id with the anchor of its heading in docs/rules-history.md.

    >>> anchors("AT-P3.2", "EP-f*")
    {'AT-P3.2': 'at-p3-2', 'EP-f*': 'ep-f'}
    """
    return {name: re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in ids}
