"""`image-inversion`: feature accuracies by the start of the inversion, its layer and the networks' width.

AT §6.2 inverts one layer from one start. Here every start × layer × width is inverted for a standard and an
adversarially trained reference, and every cell is published: the relative feature error reached, whether the
reference reads its own set, and what fresh networks of both trainings read in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any, ClassVar, get_args

from pydantic import field_validator
from torch import Tensor

from featscope.core.columns import column
from featscope.core.errors import require
from featscope.core.settings import Sizes, setting
from featscope.core.stats import as_fact, mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.image_network import ImageNetwork, Network, both, both_needed
from featscope.experiments.image_training import data_hashes, images
from featscope.experiments.spec import Experiment, Request, refuse_unused
from featscope.features.invert import InversionSpec, Start, invert
from featscope.papers.at.image_feature_columns import SetAccuracy
from featscope.papers.at.image_features import (
    INVERSION,
    METHODS,
    PAPER,
    QUICK,
    SETS,
    References,
    read_set,
    references_size,
)
from featscope.papers.at.image_relations import OTHER_START, readers

READERS = ("own", "other", "fresh-standard", "fresh-adversarial")
SHOWN = 6


class ImageInversion(References):
    """Starts, layers and widths; steps and step size are the same in every cell."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            **QUICK,
            "images": 20,
            "inversion.steps": 10,
            "widths": [4],
            "layers": ["pooled", "stage2"],
        },
        "paper": {
            **PAPER,
            "seeds": [0, 1, 2],
            "images": 1000,
            "inversion.steps": 2000,
            "widths": [16, 32, 64],
        },
    }

    seeds: tuple[int, ...] = (0, 1)
    images: int = setting(
        32, "test images that are reconstructed, drawn by seed, the same in every cell", ge=2
    )
    inversion: InversionSpec = setting(
        INVERSION.replace(steps=100), "steps and step size of every reconstruction"
    )
    starts: tuple[Start, ...] = setting(get_args(Start), "starts that are compared")
    layers: tuple[str, ...] = setting(("pooled", "stage4", "stage2"), "layers that are compared")
    widths: Sizes = setting((8, 4), "widths of the networks that are compared")

    @field_validator("starts", "layers", "widths")
    @classmethod
    def _some(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        proper = len(values) > 0 and len(set(values)) == len(values)
        require(proper, "name each value once, and at least one", f"{values}", "fix the list")
        return values

    def model_post_init(self, context: object) -> None:
        """The layers are the network's; start, layer and width come from the lists."""
        super().model_post_init(context)
        refuse_unused(self, "set starts, layers and widths", "inversion.start", "inversion.layer")
        for layer in self.layers:
            self.network.net.require_layer(layer)


class CellRead(SetAccuracy):
    """One row for each width, layer, start, seed, set and reader.

    A reference is the set's own or the other one.
    """

    seed = column("the references' seed")
    fresh = column("the fresh networks' seed")
    reader = column("own, other, or fresh- and the training")
    width = column("width of the networks")


def _cell(
    spec: ImageInversion,
    reference: Mapping[str, Network],
    fresh: Mapping[str, Network],
    layer: str,
    start: Start,
) -> tuple[Rows, dict[str, Tensor]]:
    """The rows of one start and layer for one reference: both sets, each with all readers."""
    how = spec.inversion.replace(start=start, layer=layer)
    seed = reference["standard"].seed
    originals = images(spec.network, "test", spec.images, seed)
    sets = {key: invert(reference[method].last, *originals, how, seed) for key, method in SETS.items()}
    rows = [
        {CellRead.fresh: fresh["standard"].seed, CellRead.reader: who, **read_set(net.last, name, data)}
        for name, data in sets.items()
        for who, net in _readers(reference, fresh, name).items()
    ]
    shown = {key: data.x for key, data in sets.items()} | {"original": originals.x}
    return rows, {key: x[:SHOWN].clone() for key, x in shown.items()}


def _readers(reference: Mapping[str, Network], fresh: Mapping[str, Network], name: str) -> dict[str, Network]:
    """The networks that read a set: its own reference, the other one, and both fresh ones."""
    found = {"own" if SETS[name] == method else "other": net for method, net in reference.items()}
    return found | {f"fresh-{method}": net for method, net in fresh.items()}


def _of_width(spec: ImageInversion, width: int) -> ImageNetwork:
    return spec.network.replace(net=spec.network.net.replace(width=width))


def needed(spec: ImageInversion) -> Mapping[str, Request]:
    """The networks of both trainings for every width and seed."""
    found: dict[str, Request] = {}
    for width in spec.widths:
        found |= both_needed(_of_width(spec, width), spec.adversarial, spec.seeds)
    return found


def run(spec: ImageInversion, folder: Folder) -> Json:
    """All cells for every pair of reference and fresh networks; means over the pairs."""
    cells: dict[tuple[Any, ...], list[Rows]] = {}
    for width in spec.widths:
        nets = both(_of_width(spec, width), spec.adversarial, spec.seeds, folder)
        by_seed = {seed: {method: nets[method][i] for method in METHODS} for i, seed in enumerate(spec.seeds)}
        fresh = {seed: of[OTHER_START] for seed, of in readers(spec.seeds, 1).items()}
        for seed, layer, start in product(spec.seeds, spec.layers, spec.starts):
            make = partial(_cell, spec, by_seed[seed], by_seed[fresh[seed]], layer, start)
            made = folder.once("cell", make, width=width, layer=layer, start=start, seed=seed)
            cells.setdefault((width, layer, start), []).append(made.rows)
            total = len(spec.widths) * len(spec.layers) * len(spec.starts) * len(spec.seeds)
            folder.progress.report("cells", sum(map(len, cells.values())), total, {})
    return {
        "cells": [
            {"width": w, "layer": la, "start": st, "set": name, **_means(rows, name)}
            for (w, la, st), rows in cells.items()
            for name in SETS
        ],
        "steps": spec.inversion.steps,
        "images": spec.images,
        "pairs": len(spec.seeds),
        "data_sha256": data_hashes(spec.network.dataset),
    }


def _means(pairs_of_rows: list[Rows], name: str) -> Json:
    """Error and accuracies of one cell and set over the pairs of networks."""
    chosen = [[row for row in rows if row[CellRead.set] == name] for rows in pairs_of_rows]
    found: Json = {"error": as_fact(mean_interval([rows[0][CellRead.error_mean] for rows in chosen]))}
    for reader in READERS:
        read = [row[CellRead.accuracy] for rows in chosen for row in rows if row[CellRead.reader] == reader]
        found[reader] = as_fact(mean_interval(read))
    return found


def size(spec: ImageInversion) -> Size:
    """The networks that it needs, and a reconstruction for every cell."""
    cells = len(spec.starts) * len(spec.layers) * len(spec.widths) * len(spec.seeds)
    return references_size(spec, spec.inversion.steps * cells)


EXPERIMENTS = (
    Experiment(
        name="image-inversion",
        paper="at",
        shows="AT §6.2: feature accuracies over inversion start × layer × width of the networks, all cells",
        spec=ImageInversion,
        run=run,
        takes={
            "quick": "1 min",
            "cpu": "5 min, and 8 min for its networks of width 4 besides those that other experiments share",
            "paper": "not measured; a GPU job",
        },
        highlights=(
            Highlight("images", "images reconstructed"),
            Highlight("pairs", "pairs of networks"),
        ),
        size=size,
        revision=2,
        columns={"cell": CellRead},
        data=lambda spec: (spec.network.dataset,),
        needs=needed,
    ),
)
