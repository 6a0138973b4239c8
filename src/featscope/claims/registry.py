"""All claims by id, paper by paper."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from featscope.claims.claim import Claim
from featscope.core.errors import BadInput, known_as
from featscope.experiments.registry import rooms


@cache
def claims() -> dict[str, Claim]:
    """All claims by id, in the order of the ledger."""
    found: dict[str, Claim] = {}
    for room in rooms().values():
        for claim in room.CLAIMS:
            if claim.id in found:
                raise BadInput("two claims of one id", claim.id, "rename one of them")
            found[claim.id] = claim
    return found


def claim(name: str) -> Claim:
    """Return the claim of that id, in capitals or not; an unknown id lists the nearest."""
    return claims()[known_as("claim", name, claims())]


def rules_history(claim: Claim) -> str | None:
    """The anchor in docs/rules-history.md that tells how the rules behind a claim were changed, if they
    were."""
    changed: Collection[str] = getattr(rooms()[claim.paper], "RULES_HISTORY", ())
    return re.sub("[^a-z0-9]+", "-", claim.id.lower()).strip("-") if claim.id in changed else None
