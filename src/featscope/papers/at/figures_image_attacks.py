"""AT Table 2 as a figure: attacks on the features of image networks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import polars as pl

from featscope.core.stored import Label, LeftOut
from featscope.experiments.run import Run
from featscope.images.catalogue import DATASETS
from featscope.papers.at.feature_attack_columns import RATE, Rates
from featscope.papers.at.image_feature_attacks import ImageFeatureAttacks
from featscope.papers.at.image_features import METHODS
from featscope.papers.at.printed import TABLE_2, TABLE_2_PAIRS
from featscope.plots.axes import Axis
from featscope.plots.grids import Categories, Group, ImageRows
from featscope.plots.palette import NON_ROBUST, REFERENCE, ROBUST
from featscope.plots.picture import Picture
from featscope.plots.sheet import Shown, side_by_side

NAMES = {"cifar10": ("plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")}
ATTACKS = {"NRF": (NON_ROBUST, "NRF-PGD"), "RF": (ROBUST, "RF-PGD"), "noise": (REFERENCE, "random ±ε")}
RATES = Axis("classified as the target (%)", limits=(0, 100), ticks=(0, 25, 50, 75, 100))


def feature_attacks(run: Run) -> Picture:
    """Table 2: for each data set the rates on networks of both trainings, and images to look at."""
    names = ImageFeatureAttacks.of(run).datasets
    seen = {name: _seen(run, name) for name in names}
    pixels = all(seen.values())
    panels: list[Shown] = []
    for name in names:
        panels += [_rates(run, name, method) for method in METHODS]
        panels += seen[name] if pixels else []
    looked = (
        " On the right, images of the first pair: X, the target X′, and X under both attacks."
        if pixels
        else ""
    )
    ticks = " Grey ticks are what the paper prints." if "cifar10" in names else ""
    return Picture(
        title="Attacks that follow non-robust or robust features",
        caption=(
            "Images of a source class are moved towards an image of the target class: in the representation "
            "of a standard "
            "network (NRF-PGD) or of an adversarially trained one (RF-PGD), or at random. The bars say how "
            "many another "
            f"network then takes for the target: median over seeds, dots are the seeds.{ticks}{looked}"
        ),
        alt=(
            "For each data set grouped bars of targeted success rates over pairs of classes, on standard and "
            "on adversarially trained networks, for three attacks"
            + (", and four rows of images." if pixels else ".")
        ),
        spec=side_by_side(panels, columns=len(METHODS) + pixels),
        claims=("AT-T2",),
        reproduces="AT Table 2",
    )


def _seen(run: Run, name: str) -> list[ImageRows]:
    """The images of a data set; none where the run was passed on without pixels."""
    with contextlib.suppress(LeftOut):
        return [_images(run, name)] if run.tensors else []
    return []


def _rates(run: Run, name: str, method: str) -> Categories:
    pairs, rows = ImageFeatureAttacks.of(run).pairs, run.part("rates", dataset=name)
    words = NAMES.get(name, tuple(str(i) for i in range(10)))
    groups = []
    for attack, (look, label) in ATTACKS.items():
        of_pairs = [
            rows.filter(
                (pl.col(Rates.attack) == attack) & (pl.col(Rates.source) == a) & (pl.col(Rates.target) == b)
            )
            for a, b in pairs
        ]
        values = [(100 * part[RATE[method][0]]).to_list() for part in of_pairs]
        groups.append(Group(label, look, values, _printed(name, method, attack, pairs)))
    places = [f"{words[a]} → {words[b]}" for a, b in pairs]
    title = f"{DATASETS[name].title}, {method} training"
    return Categories(title, places, RATES, groups, width=max(260, 95 * len(pairs)))


def _printed(name: str, method: str, attack: str, pairs: tuple[tuple[int, int], ...]) -> list[float | None]:
    """Table 2's numbers in percent, None where it has none."""
    if name != "cifar10" or attack not in TABLE_2[method]:
        return []
    line = dict(zip(TABLE_2_PAIRS, TABLE_2[method][attack], strict=True))
    return [100 * line[pair] if pair in line else None for pair in pairs]


def _images(run: Run, name: str) -> ImageRows:
    """Originals, targets, and the perturbed originals of both attacks, first pair of the first seed."""
    spec = ImageFeatureAttacks.of(run)
    source, target = spec.pairs[0]
    where: dict[str, Label] = {"dataset": name, "seed": spec.seeds[0], "source": source, "target": target}
    shown = {"original": "X", "target": "X′", "NRF": "NRF-PGD", "RF": "RF-PGD"}
    rows = [(label, run.tensor("rates", key, **where).numpy()) for key, label in shown.items()]
    return ImageRows("images of the first pair", rows)


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "image-feature-attacks": {"table2": feature_attacks},
}
