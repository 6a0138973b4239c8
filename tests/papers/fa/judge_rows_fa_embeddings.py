"""What FA's judges of embeddings of real images must say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from judging import Case, Entry, Parts, Table, judged, made

from featscope.experiments.run import Run

NAN = float("nan")
#: a head's numbers that hold for no reading
SPOILED = {
    "own": 0.1,
    "half": 0.1,
    "other": 0.1,
    "same_min": -0.5,
    "same_other_max": 0.5,
    "own_min": -0.5,
    "own_other_max": 0.5,
    "same_gap": -0.5,
    "images_same_gap": -0.5,
    "dead_share": 0.0,
    "dead_weights": 0.0,
    "test_own": 0.9,
    "test_half": 0.9,
}
#: Figure 10's numbers that hold for no reading
APART = {
    "same": 0.1,
    "cross": 0.5,
    "cross_size": 0.5,
    "same_low": 0.1,
    "cross_high": 0.6,
    "block_margin": -0.5,
    "blocks_below": 9.0,
    "feature_cosine_largest": 0.9,
}
NETS, KINDS, STAGES = ("binary", "fine"), ("raw", "centred"), ("paper", "long")
LITE, CLIP = "efficientnet-lite0", "clip-vit-b-32"


def heads(
    net: str, kind: str, stage: str, by_seed: Sequence[dict[str, float]], encoder: str = LITE, side: int = 224
) -> Run:
    """One head of one kind of embedding at one stage, seed by seed; all others hold nothing."""
    table = []
    for seed, given in enumerate(by_seed):
        for n, k, s in product(NETS, KINDS, STAGES):
            row = SPOILED | (given if (n, k, s) == (net, kind, stage) else {})
            table.append({"net": n, "kind": k, "stage": s, "seed": seed, **row})
    apart = [{"kind": k, "seed": seed, **APART} for seed in range(len(by_seed)) for k in KINDS]
    return _made({"table": table, "correlation": apart}, len(by_seed), encoder, side)


def figure10(kind: str, by_seed: Sequence[dict[str, float]], encoder: str = LITE, side: int = 224) -> Run:
    """Correlations of one kind of embedding, seed by seed; the other kind holds nothing."""
    rows = [
        {"kind": k, "seed": seed, **APART, **(given if k == kind else {})}
        for seed, given in enumerate(by_seed)
        for k in KINDS
    ]
    return _made({"correlation": rows}, len(by_seed), encoder, side)


def _made(parts: Parts, seeds: int, encoder: str, side: int) -> Run:
    return made("image-embeddings", parts, encoder=encoder, side=side, seeds=list(range(seeds)))


def _case(
    run: Run,
    verdict: str,
    value: float | None = None,
    bound: float | None = None,
    would_be: str | None = None,
) -> Case:
    return Case({"run": run}, verdict, value, bound, would_be)


def uniform(net: str, kind: str, stage: str, literal: bool = False) -> Table:
    """Least wanted ÷ largest unwanted cosine is at least 3 in every seed, of heads that are halfway from
    chance to 1: .75, or .55 of ten."""
    wanted, level = {"binary": ("same", 0.75), "fine": ("own", 0.55)}[net]
    usual = CLIP if literal else LITE

    def run(*pairs: tuple[float, float], learned: Sequence[float] = (0.9, 0.9, 0.9), **more: Any) -> Run:
        rows = [
            {f"{wanted}_min": a, f"{wanted}_other_max": b, "test_own": c}
            for (a, b), c in zip(pairs, learned, strict=False)
        ]
        return heads(net, kind, stage, rows, **({"encoder": usual} | more))

    good = ((0.5, 0.125), (0.625, 0.125), (0.75, 0.125))
    lite = () if not literal else (_case(run(*good, encoder=LITE), "OUT_OF_SCOPE", 5.0, 3.0, "HOLDS"),)
    return Table(
        holds=_case(run(*good), "HOLDS", 5.0, 3.0),
        fails=_case(run((0.125, 0.125), (0.25, 0.125)), "FAILS", 1.5, 3.0),
        at_bound=_case(run((0.75, 0.25), (0.75, 0.25)), "HOLDS", 3.0, 3.0),
        bad_seed=_case(run((0.875, 0.125), (0.875, 0.125), (0.125, 0.125)), "INCONCLUSIVE", 5.0, 3.0),
        nan=_case(run((0.875, 0.125), (NAN, 0.125)), "INCONCLUSIVE", None, 3.0),
        more=(
            _case(run((0.299, 0.1)), "FAILS", 2.99, 3.0),
            _case(run((0.25, 0.0)), "HOLDS", None, 3.0),
            _case(run(*good, learned=(level, level, level)), "HOLDS", 5.0, 3.0),
            _case(run(*good, learned=(1.0, level - 0.001, 1.0)), "OUT_OF_SCOPE", 5.0, 3.0, "HOLDS"),
            _case(run(*good, learned=(1.0, 1.0, NAN)), "OUT_OF_SCOPE", 5.0, 3.0, "HOLDS"),
            _case(run(*good, side=32), "OUT_OF_SCOPE", 5.0, 3.0, "HOLDS"),
            _case(run((0.125, 0.125), side=256), "OUT_OF_SCOPE", 1.0, 3.0, "FAILS"),
            _case(run(*good, encoder=CLIP), "HOLDS", 5.0, 3.0),
            *lite,
        ),
    )


judged("FA-F2cd", "2-class")(lambda: uniform("binary", "raw", "paper"))
judged("FA-F2cd", "10-class")(lambda: uniform("fine", "raw", "paper"))
judged("FA-F2cd", "10-class (centred)")(lambda: uniform("fine", "centred", "paper"))
judged("FA-F2cd", "2-class (long)")(lambda: uniform("binary", "raw", "long"))
judged("FA-F2cd", "10-class (long)")(lambda: uniform("fine", "raw", "long"))
judged("FA-F2cd", "10-class (centred, long)")(lambda: uniform("fine", "centred", "long"))
judged("FA-F2cd", "2-class (CLIP)")(lambda: uniform("binary", "raw", "paper", literal=True))
judged("FA-F2cd", "10-class (CLIP)")(lambda: uniform("fine", "raw", "paper", literal=True))


def larger(kind: str, stage: str) -> Table:
    """Every same-half cosine exceeds every other one in every seed."""

    def run(*gaps: float, learned: Sequence[float] = (0.9, 0.9, 0.9), **more: Any) -> Run:
        return heads(
            "binary",
            kind,
            stage,
            [{"same_gap": g, "test_own": c} for g, c in zip(gaps, learned, strict=False)],
            **more,
        )

    return Table(
        holds=_case(run(0.1, 0.2, 0.3), "HOLDS", 0.2, 0.0),
        fails=_case(run(-0.1, -0.2, -0.3), "FAILS", -0.2, 0.0),
        at_bound=_case(run(0.0, 0.0, 0.0), "FAILS", 0.0, 0.0),
        bad_seed=_case(run(0.5, 0.5, -0.1), "INCONCLUSIVE", 0.3, 0.0),
        nan=_case(run(0.5, NAN, 0.5), "INCONCLUSIVE", None, 0.0),
        more=(
            _case(run(0.2, 0.0, 0.1), "INCONCLUSIVE", 0.1, 0.0),
            _case(run(0.1, 0.2, 0.3, learned=(0.75, 0.75, 0.75)), "HOLDS", 0.2, 0.0),
            _case(run(0.1, 0.2, 0.3, learned=(0.9, 0.9, 0.749)), "OUT_OF_SCOPE", 0.2, 0.0, "HOLDS"),
            _case(run(0.1, 0.2, 0.3, side=32), "OUT_OF_SCOPE", 0.2, 0.0, "HOLDS"),
        ),
    )


judged("FA-F2cd", "2-class larger")(lambda: larger("raw", "paper"))
judged("FA-F2cd", "2-class larger (centred)")(lambda: larger("centred", "paper"))
judged("FA-F2cd", "2-class larger (long)")(lambda: larger("raw", "long"))
judged("FA-F2cd", "2-class larger (centred, long)")(lambda: larger("centred", "long"))


@judged("FA-F10", "higher", "higher (CLIP)")
def _higher(name: str) -> Entry:
    """Mean cosine of one class minus that of different classes, Student's interval over seeds above 0."""
    usual = CLIP if name == "higher (CLIP)" else LITE

    def run(*pairs: tuple[float, float], **more: Any) -> Run:
        return figure10("raw", [{"same": a, "cross": b} for a, b in pairs], **({"encoder": usual} | more))

    good = ((0.5, 0.375), (0.625, 0.375), (0.5, 0.25))
    scope = (
        (_case(run(*good, encoder=LITE), "OUT_OF_SCOPE", 0.625 / 3, 0.0, "HOLDS"),)
        if usual == CLIP
        else (_case(run(*good, encoder=CLIP), "HOLDS", 0.625 / 3, 0.0),)
    )
    return Table(
        holds=_case(run(*good), "HOLDS", 0.625 / 3, 0.0),
        fails=_case(run((0.375, 0.5), (0.375, 0.625), (0.25, 0.5)), "FAILS", -0.625 / 3, 0.0),
        at_bound=_case(run((0.5, 0.5), (0.5, 0.5)), "FAILS", 0.0, 0.0),
        bad_seed=_case(run((0.5, 0.25), (0.5, 0.25), (0.25, 0.5)), "INCONCLUSIVE", 0.25 / 3, 0.0),
        nan=_case(run((0.5, 0.25), (0.5, NAN), (0.5, 0.25)), "INCONCLUSIVE", None, 0.0),
        more=(
            _case(run((0.5, 0.25)), "INCONCLUSIVE", 0.25, 0.0),
            _case(run(*good, side=32), "OUT_OF_SCOPE", 0.625 / 3, 0.0, "HOLDS"),
            *scope,
        ),
    )


def blocks(kind: str) -> Table:
    """Each class's own block exceeds every block that it shares, in every seed."""

    def run(*margins: float, **more: Any) -> Run:
        return figure10(kind, [{"block_margin": m} for m in margins], **more)

    return Table(
        holds=_case(run(0.1, 0.2, 0.3), "HOLDS", 0.2, 0.0),
        fails=_case(run(-0.1, -0.2, -0.3), "FAILS", -0.2, 0.0),
        at_bound=_case(run(0.0, 0.0), "FAILS", 0.0, 0.0),
        bad_seed=_case(run(0.5, 0.5, -0.1), "INCONCLUSIVE", 0.3, 0.0),
        nan=_case(run(0.5, NAN), "INCONCLUSIVE", None, 0.0),
        more=(_case(run(0.1, side=32), "OUT_OF_SCOPE", 0.1, 0.0, "HOLDS"),),
    )


judged("FA-F10", "blocks")(lambda: blocks("raw"))
judged("FA-F10", "blocks (centred)")(lambda: blocks("centred"))


def orthogonal(kind: str, key: str) -> Table:
    """An absolute cosine of at most .09 in every seed."""

    def run(*values: float, **more: Any) -> Run:
        return figure10(kind, [{key: value} for value in values], **more)

    return Table(
        holds=_case(run(0.06, 0.07, 0.08), "HOLDS", 0.07, 0.09),
        fails=_case(run(0.1, 0.2, 0.3), "FAILS", 0.2, 0.09),
        at_bound=_case(run(0.09), "HOLDS", 0.09, 0.09),
        bad_seed=_case(run(0.01, 0.01, 0.1), "INCONCLUSIVE", 0.04, 0.09),
        nan=_case(run(0.01, NAN), "INCONCLUSIVE", None, 0.09),
        more=(
            _case(run(0.0901), "FAILS", 0.0901, 0.09),
            _case(run(0.2, side=32), "OUT_OF_SCOPE", 0.2, 0.09, "FAILS"),
        ),
    )


judged("FA-F10", "orthogonal features")(lambda: orthogonal("raw", "feature_cosine_largest"))
judged("FA-F10", "orthogonal images")(lambda: orthogonal("raw", "cross_size"))
judged("FA-F10", "orthogonal images (centred)")(lambda: orthogonal("centred", "cross_size"))
