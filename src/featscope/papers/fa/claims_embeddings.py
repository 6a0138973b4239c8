"""FA's figures on embeddings of real images as statements: 2 (c, d) and 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from featscope.claims.claim import Claim, Finding, Judge, Need, Runs
from featscope.claims.judging import above, at_least, at_most, largest, one_run, out_of_scope, over_seeds, quotient
from featscope.core.rules import CONSTANT
from featscope.core.stats import mean_interval
from featscope.experiments.run import Run
from featscope.images.catalogue import CLIP, ENCODERS
from featscope.papers.fa.runs import claim, seeds

EMBEDDINGS = Need("image-embeddings")
#: E.1 (Figure 9) calls features with this cosine nearly orthogonal, and no larger one
NEARLY_ORTHOGONAL = 0.09
#: a head has learned when its test accuracy is at least this part of the way from chance to 1
LEARNED = 0.5
#: test accuracy on the labels that the head was trained on, and chance there
_ACCURACY = {"binary": ("binary_test_own", 0.5), "fine": ("fine_test_own", 0.1)}
#: which cosines the network should have: all of its half, or its own class's
_WANTED = {"binary": "same", "fine": "own"}


def _rows(run: Run, part: str) -> list[Mapping[str, Any]]:
    return [run.part(f"{part}-{seed}").to_dicts()[0] for seed in seeds(run)]


def _foreign_size(run: Run) -> list[str]:
    """Why embeddings say nothing: the encoder was not used as it was trained."""
    side, known = run.summary["preprocessing"]["side"], ENCODERS[run.summary["encoder"]].side
    return [] if side == known else [f"images have side {side} where the encoder was trained on {known}"]


def _unlearned(rows: Sequence[Mapping[str, Any]], net: str) -> list[str]:
    key, chance = _ACCURACY[net]
    least, level = -largest(-row[key] for row in rows), chance + LEARNED * (1 - chance)
    return [] if least >= level else [f"the head's test accuracy is {least:.2f}, below {level:.2f}"]


def _judged(missing: Sequence[str], finding: Finding) -> Finding:
    return out_of_scope(missing, finding) if missing else finding


def _not_clip(run: Run, literal: bool) -> list[str]:
    return (
        [f"the encoder is {run.summary['encoder']}, the paper's is {CLIP.name}"] if literal and run.summary["encoder"] != CLIP.name else []
    )


def _uniform(net: str, kind: str, stage: str, literal: bool = False) -> Judge:
    """FA-F2's rule: least wanted cosine ÷ largest absolute unwanted one, by seed, at least CONSTANT."""

    def judge(runs: Runs) -> Finding:
        run, wanted = runs["run"], _WANTED[net]
        rows = _rows(run, f"table-{kind}-{stage}")
        ratios = [quotient(row[f"{net}_{wanted}_min"], row[f"{net}_{wanted}_other_max"]) for row in rows]
        shown = {key: run.summary["heads"][f"{kind}-{stage}"][net][key] for key in ("own", "half", "other", "test_own", "test_half")}
        dead = {f"dead_{key}": [row[f"{net}_dead_{key}"] for row in rows] for key in ("share", "weights")}
        finding = at_least(over_seeds(ratios), CONSTANT, ratios=ratios, **shown, **dead)
        return _judged([*_not_clip(run, literal), *_foreign_size(run), *_unlearned(rows, net)], finding)

    return judge


def _larger(kind: str, stage: str) -> Judge:
    """§6.1's words: every same-class cosine exceeds every cross-class one, signs and all."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = _rows(run, f"table-{kind}-{stage}")
        gaps = [row["binary_same_gap"] for row in rows]
        images = [row["binary_images_same_gap"] for row in rows]
        finding = above(over_seeds(gaps), 0.0, gaps=gaps, gaps_of_image_averages=images)
        return _judged([*_foreign_size(run), *_unlearned(rows, "binary")], finding)

    return judge


def _higher(kind: str, literal: bool = False) -> Judge:
    """Mean same-class minus mean cross-class cosine of images, with Student's interval over seeds, above 0."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = _rows(run, f"correlation-{kind}")
        gaps = [row["same"] - row["cross"] for row in rows]
        numbers = {key: [row[key] for row in rows] for key in ("same", "cross", "same_low", "cross_high")}
        return _judged([*_not_clip(run, literal), *_foreign_size(run)], above(mean_interval(gaps), 0.0, gaps=gaps, **numbers))

    return judge


def _blocks(kind: str) -> Judge:
    """Each class's own block against every block it shares with another class: the least difference of means, by seed."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = _rows(run, f"correlation-{kind}")
        below = [row["blocks_below"] for row in rows]
        return _judged(_foreign_size(run), above(over_seeds([row["block_margin"] for row in rows]), 0.0, blocks_below=below))

    return judge


def _orthogonal(kind: str, key: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        values = [row[key] for row in _rows(run, f"correlation-{kind}")]
        return _judged(_foreign_size(run), at_most(over_seeds(values), NEARLY_ORTHOGONAL, by_seed=values))

    return judge


_RATIO = {"binary": "least same-class ÷ largest cross-class cosine", "fine": "least diagonal ÷ largest off-diagonal cosine"}
_LARGER = "least same-class minus largest cross-class cosine: uniformly larger"
_CENTRED = ", embeddings centred"
_LONG = ", after the long training"

CLAIMS: tuple[Claim, ...] = (
    claim(
        "FA-F2cd",
        "Figure 2 (c, d)",
        "On embeddings of CIFAR-10, 2-class labels make every neuron correlate with all features of its half, 10-class labels with one.",
        ("the encoder is CLIP ViT-B/32 (CLIP readings)", "the images have the encoder's side", "the heads have learned"),
        one_run("2-class", _RATIO["binary"], EMBEDDINGS, _uniform("binary", "raw", "paper")),
        one_run("10-class", _RATIO["fine"], EMBEDDINGS, _uniform("fine", "raw", "paper")),
        one_run("10-class (centred)", _RATIO["fine"] + _CENTRED, EMBEDDINGS, _uniform("fine", "centred", "paper")),
        one_run("2-class larger", _LARGER, EMBEDDINGS, _larger("raw", "paper")),
        one_run("2-class larger (centred)", _LARGER + _CENTRED, EMBEDDINGS, _larger("centred", "paper")),
        one_run("2-class (long)", _RATIO["binary"] + _LONG, EMBEDDINGS, _uniform("binary", "raw", "long")),
        one_run("10-class (long)", _RATIO["fine"] + _LONG, EMBEDDINGS, _uniform("fine", "raw", "long")),
        one_run("10-class (centred, long)", _RATIO["fine"] + _CENTRED + _LONG, EMBEDDINGS, _uniform("fine", "centred", "long")),
        one_run("2-class larger (long)", _LARGER + _LONG, EMBEDDINGS, _larger("raw", "long")),
        one_run("2-class larger (centred, long)", _LARGER + _CENTRED + _LONG, EMBEDDINGS, _larger("centred", "long")),
        one_run("2-class (CLIP)", _RATIO["binary"] + ", the paper's encoder", EMBEDDINGS, _uniform("binary", "raw", "paper", literal=True)),
        one_run("10-class (CLIP)", _RATIO["fine"] + ", the paper's encoder", EMBEDDINGS, _uniform("fine", "raw", "paper", literal=True)),
    ),
    claim(
        "FA-F10",
        "Figure 10 (E.2)",
        "Embeddings of images of one class correlate significantly more than those of different classes, which are nearly orthogonal.",
        ("the encoder is CLIP ViT-B/32 (CLIP reading)", "the images have the encoder's side"),
        one_run("higher", "mean same-class minus mean cross-class cosine, interval over seeds", EMBEDDINGS, _higher("raw")),
        one_run("blocks", "least own-class block mean minus a block with another class", EMBEDDINGS, _blocks("raw")),
        one_run("blocks (centred)", "the same" + _CENTRED, EMBEDDINGS, _blocks("centred")),
        one_run("orthogonal features", "largest |cosine| of two class means", EMBEDDINGS, _orthogonal("raw", "feature_cosine_largest")),
        one_run("orthogonal images", "mean |cosine| of images of different classes", EMBEDDINGS, _orthogonal("raw", "cross_size")),
        one_run("orthogonal images (centred)", "the same" + _CENTRED, EMBEDDINGS, _orthogonal("centred", "cross_size")),
        one_run("higher (CLIP)", "as `higher`, the paper's encoder", EMBEDDINGS, _higher("raw", literal=True)),
    ),
)
