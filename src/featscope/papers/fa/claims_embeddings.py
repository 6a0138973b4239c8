"""FA's figures on embeddings of real images as statements: 2 (c, d) and 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from featscope.claims.claim import Claim, Finding, Judge, Need, Runs
from featscope.claims.judging import above, at_least, at_most, one_run, over_seeds, quotient, scoped, smallest
from featscope.core.columns import Column
from featscope.core.rules import CONSTANT, HEAD_LEARNED, NEARLY_ORTHOGONAL
from featscope.core.stats import mean_interval
from featscope.experiments.run import Run
from featscope.images.catalogue import CLIP, ENCODERS
from featscope.papers.fa.embedding_columns import CosineMap, Figure10
from featscope.papers.fa.image_embeddings import ImageEmbeddings, over_rows
from featscope.papers.fa.runs import stated

EMBEDDINGS = Need("image-embeddings")
#: chance on the labels that a head was trained on
_CHANCE = {"binary": 0.5, "fine": 0.1}
#: which cosines a head should have, all of its half or its own class's: the least of them, the largest other
#: one
_WANTED = {
    "binary": (CosineMap.same_min, CosineMap.same_other_max),
    "fine": (CosineMap.own_min, CosineMap.own_other_max),
}
_SHOWN = (CosineMap.own, CosineMap.half, CosineMap.other, CosineMap.test_own, CosineMap.test_half)

HeadRows = Sequence[Mapping[str, Any]]


def _rows(run: Run, part: str, **labels: str) -> HeadRows:
    """The row of each seed."""
    return [run.part(part, **labels, seed=seed).to_dicts()[0] for seed in ImageEmbeddings.of(run).seeds]


def _foreign_size(run: Run) -> list[str]:
    """Why embeddings say nothing: the encoder was not used as it was trained."""
    spec = ImageEmbeddings.of(run)
    known = ENCODERS[spec.encoder].side
    side = known if spec.side is None else spec.side
    return [] if side == known else [f"images have side {side} where the encoder was trained on {known}"]


def _unlearned(rows: HeadRows, net: str) -> list[str]:
    level = _CHANCE[net] + HEAD_LEARNED * (1 - _CHANCE[net])
    least = smallest(row[CosineMap.test_own] for row in rows)
    return [] if least >= level else [f"the head's test accuracy is {least:.2f}, below {level:.2f}"]


def _not_clip(run: Run, literal: bool) -> list[str]:
    encoder = ImageEmbeddings.of(run).encoder
    return (
        [f"the encoder is {encoder}, the paper's is {CLIP.name}"] if literal and encoder != CLIP.name else []
    )


def _uniform(net: str, kind: str, stage: str, literal: bool = False) -> Judge:
    """FA-F2's rule: least wanted cosine ÷ largest absolute unwanted one, by seed, at least CONSTANT."""
    wanted, unwanted = _WANTED[net]

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = _rows(run, "table", net=net, kind=kind, stage=stage)
        ratios = [quotient(row[wanted], row[unwanted]) for row in rows]
        shown = {str(key): over_rows(rows, key) for key in _SHOWN}
        dead = {
            str(key): [row[key] for row in rows] for key in (CosineMap.dead_share, CosineMap.dead_weights)
        }
        finding = at_least(over_seeds(ratios), CONSTANT, ratios=ratios, **shown, **dead)
        return scoped([*_not_clip(run, literal), *_foreign_size(run), *_unlearned(rows, net)], finding)

    return judge


def _larger(kind: str, stage: str) -> Judge:
    """§6.1's words: every same-class cosine exceeds every cross-class one, signs and all."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = _rows(run, "table", net="binary", kind=kind, stage=stage)
        gaps, images = ([row[key] for row in rows] for key in (CosineMap.same_gap, CosineMap.images_same_gap))
        finding = above(over_seeds(gaps), 0.0, gaps=gaps, gaps_of_image_averages=images)
        return scoped([*_foreign_size(run), *_unlearned(rows, "binary")], finding)

    return judge


def _higher(kind: str, literal: bool = False) -> Judge:
    """Mean same-class minus mean cross-class cosine of images, Student's interval over seeds, above 0."""
    columns = (Figure10.same, Figure10.cross, Figure10.same_low, Figure10.cross_high)

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = _rows(run, "correlation", kind=kind)
        gaps = [row[Figure10.same] - row[Figure10.cross] for row in rows]
        shown = {str(key): [row[key] for row in rows] for key in columns}
        finding = above(mean_interval(gaps), 0.0, gaps=gaps, **shown)
        return scoped([*_not_clip(run, literal), *_foreign_size(run)], finding)

    return judge


def _blocks(kind: str) -> Judge:
    """Each class's own block against every block it shares: the least difference of means, by seed."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = _rows(run, "correlation", kind=kind)
        margins, below = (
            [row[key] for row in rows] for key in (Figure10.block_margin, Figure10.blocks_below)
        )
        return scoped(_foreign_size(run), above(over_seeds(margins), 0.0, blocks_below=below))

    return judge


def _orthogonal(kind: str, key: Column) -> Judge:
    """An absolute cosine, by seed, is at most NEARLY_ORTHOGONAL."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        values = [row[key] for row in _rows(run, "correlation", kind=kind)]
        return scoped(_foreign_size(run), at_most(over_seeds(values), NEARLY_ORTHOGONAL, by_seed=values))

    return judge


_RATIO = {
    "binary": "least same-class ÷ largest cross-class cosine",
    "fine": "least diagonal ÷ largest off-diagonal cosine",
}
_LARGER = "least same-class minus largest cross-class cosine: uniformly larger"
_CENTRED = ", embeddings centred"
_LONG = ", after the long training"
_CLIP = ", the paper's encoder"

CLAIMS: tuple[Claim, ...] = (
    stated(
        "FA-F2cd",
        "Figure 2 (c, d)",
        "On embeddings of CIFAR-10, 2-class labels make every neuron correlate with all features of its "
        "half, 10-class labels with one.",
        (
            "the encoder is CLIP ViT-B/32 (CLIP readings)",
            "the images have the encoder's side",
            "the heads have learned",
        ),
        one_run("2-class", _RATIO["binary"], EMBEDDINGS, _uniform("binary", "raw", "paper")),
        one_run("10-class", _RATIO["fine"], EMBEDDINGS, _uniform("fine", "raw", "paper")),
        one_run(
            "10-class (centred)", _RATIO["fine"] + _CENTRED, EMBEDDINGS, _uniform("fine", "centred", "paper")
        ),
        one_run("2-class larger", _LARGER, EMBEDDINGS, _larger("raw", "paper")),
        one_run("2-class larger (centred)", _LARGER + _CENTRED, EMBEDDINGS, _larger("centred", "paper")),
        one_run("2-class (long)", _RATIO["binary"] + _LONG, EMBEDDINGS, _uniform("binary", "raw", "long")),
        one_run("10-class (long)", _RATIO["fine"] + _LONG, EMBEDDINGS, _uniform("fine", "raw", "long")),
        one_run(
            "10-class (centred, long)",
            _RATIO["fine"] + _CENTRED + _LONG,
            EMBEDDINGS,
            _uniform("fine", "centred", "long"),
        ),
        one_run("2-class larger (long)", _LARGER + _LONG, EMBEDDINGS, _larger("raw", "long")),
        one_run(
            "2-class larger (centred, long)",
            _LARGER + _CENTRED + _LONG,
            EMBEDDINGS,
            _larger("centred", "long"),
        ),
        one_run(
            "2-class (CLIP)",
            _RATIO["binary"] + _CLIP,
            EMBEDDINGS,
            _uniform("binary", "raw", "paper", literal=True),
        ),
        one_run(
            "10-class (CLIP)",
            _RATIO["fine"] + _CLIP,
            EMBEDDINGS,
            _uniform("fine", "raw", "paper", literal=True),
        ),
    ),
    stated(
        "FA-F10",
        "Figure 10 (E.2)",
        "Embeddings of images of one class correlate significantly more than those of different classes, "
        "which are nearly orthogonal.",
        ("the encoder is CLIP ViT-B/32 (CLIP reading)", "the images have the encoder's side"),
        one_run(
            "higher",
            "mean same-class minus mean cross-class cosine, interval over seeds",
            EMBEDDINGS,
            _higher("raw"),
        ),
        one_run(
            "blocks",
            "least own-class block mean minus a block with another class",
            EMBEDDINGS,
            _blocks("raw"),
        ),
        one_run("blocks (centred)", "the same" + _CENTRED, EMBEDDINGS, _blocks("centred")),
        one_run(
            "orthogonal features",
            "largest |cosine| of two class means",
            EMBEDDINGS,
            _orthogonal("raw", Figure10.feature_cosine_largest),
        ),
        one_run(
            "orthogonal images",
            "mean |cosine| of images of different classes",
            EMBEDDINGS,
            _orthogonal("raw", Figure10.cross_size),
        ),
        one_run(
            "orthogonal images (centred)",
            "the same" + _CENTRED,
            EMBEDDINGS,
            _orthogonal("centred", Figure10.cross_size),
        ),
        one_run(
            "higher (CLIP)", "as `higher`, the paper's encoder", EMBEDDINGS, _higher("raw", literal=True)
        ),
    ),
)
