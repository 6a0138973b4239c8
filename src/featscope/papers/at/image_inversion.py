"""`image-inversion`: how feature accuracies depend on where inversion starts, on the layer it inverts and on the width of the networks.

AT §6.2 inverts one layer from one start. Here every start × layer × width is inverted for a standard and an adversarially trained reference, and every cell is
published: the relative feature error reached, whether the reference reads its own set, and what fresh networks of both trainings read in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar, get_args

from pydantic import Field, field_validator

from featscope.core.errors import require
from featscope.core.stats import mean_interval
from featscope.core.store import Folder, Json, Rows
from featscope.experiments.image_network import ImageNetwork, Network, both, both_needed, images
from featscope.experiments.image_training import as_fact
from featscope.experiments.spec import Experiment, Request, refuse_unused
from featscope.features.invert import InversionSpec, Start, invert
from featscope.images.datasets import load
from featscope.papers.at.image_features import INVERSION, METHODS, PAPER, QUICK, SETS, References, pairs, read_sets, readers

READERS = ("own", "other", "fresh-standard", "fresh-adversarial")
SHOWN = 6


class ImageInversion(References):
    """Starts, layers and widths; steps and step size are the same in every cell."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {**QUICK, "images": 20, "inversion.steps": 10, "widths": [4], "layers": ["pooled", "stage2"]},
        "paper": {**PAPER, "seeds": [0, 1, 2], "images": 1000, "inversion.steps": 2000, "widths": [16, 32, 64]},
    }

    seeds: tuple[int, ...] = (0, 1)
    images: int = Field(default=32, ge=2, description="test images that are reconstructed, drawn by seed, the same in every cell")
    inversion: InversionSpec = INVERSION.replace(steps=100)
    starts: tuple[Start, ...] = get_args(Start)
    layers: tuple[str, ...] = ("pooled", "stage4", "stage2")
    widths: tuple[int, ...] = (8, 4)

    @field_validator("starts", "layers", "widths")
    @classmethod
    def _some(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        require(len(values) > 0 and len(set(values)) == len(values), "name each value once, and at least one", f"{values}", "fix the list")
        return values

    def model_post_init(self, context: object) -> None:
        """The layers are the network's; start, layer and width come from the lists."""
        super().model_post_init(context)
        refuse_unused(self, "set starts, layers and widths", "inversion.start", "inversion.layer")
        for layer in self.layers:
            self.network.net.require_layer(layer)


def _cell(
    spec: ImageInversion, folder: Folder, name: str, reference: Mapping[str, Network], fresh: Mapping[str, Network], where: Json
) -> Rows:
    """The rows of one start, layer and width for one reference: both sets, each with all readers; made once."""
    part = folder.part(name)
    saved = part.load()
    if saved is not None:
        return saved.rows
    how = spec.inversion.replace(start=where["start"], layer=where["layer"])
    seed = reference["standard"].seed
    originals = images(spec.network, "test", spec.images, seed)
    sets = {key: invert(reference[method].last, originals.x, originals.y, how, seed) for key, method in SETS.items()}
    rows = [{**where, "seed": seed, "fresh": fresh["standard"].seed, **row} for row in read_sets(readers(reference, fresh), sets)]
    for row in rows:
        row["reader"] = _role(row["reader"], row["set"])
    part.save(0, True, rows, {key: data.x[:SHOWN].clone() for key, data in sets.items()} | {"original": originals.x[:SHOWN].clone()})
    return rows


def _role(reader: str, name: str) -> str:
    """A reference is the set's own or the other one."""
    kind, method = reader.split("-")
    if kind == "fresh":
        return reader
    return "own" if SETS[name] == method else "other"


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
        for (seed, other), layer, start in product(pairs(spec.seeds), spec.layers, spec.starts):
            where = {"width": width, "layer": layer, "start": start}
            rows = _cell(spec, folder, f"cell/{width}/{layer}/{start}/{seed}", by_seed[seed], by_seed[other], where)
            cells.setdefault((width, layer, start), []).append(rows)
            done = sum(map(len, cells.values())), len(spec.widths) * len(spec.layers) * len(spec.starts) * len(spec.seeds)
            folder.progress.report("cells", *done, {})
    return {
        "cells": [
            {"width": w, "layer": la, "start": st, "set": name, **_means(rows, name)}
            for (w, la, st), rows in cells.items()
            for name in SETS
        ],
        "steps": spec.inversion.steps,
        "images": spec.images,
        "pairs": len(spec.seeds),
        "data_sha256": {split: load(spec.network.dataset, split).sha256 for split in ("train", "test")},
    }


def _means(pairs_of_rows: list[Rows], name: str) -> Json:
    """Error and accuracies of one cell and set over the pairs of networks."""
    chosen = [[row for row in rows if row["set"] == name] for rows in pairs_of_rows]
    found: Json = {"error": as_fact(mean_interval([rows[0]["error_mean"] for rows in chosen]))}
    for reader in READERS:
        found[reader] = as_fact(mean_interval([next(r["accuracy"] for r in rows if r["reader"] == reader) for rows in chosen]))
    return found


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
        needs_data=("mnist",),
        needs=needed,
    ),
)
