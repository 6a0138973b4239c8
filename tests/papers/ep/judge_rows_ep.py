"""Rows for EP's judges: `built-memorise`, `built-fstar`, `manifold`, `image-separation`. The packing's are
with CGRO's."""

from __future__ import annotations

import math
from typing import Any

import torch
from judging import Case, Table, judged, made

from featscope.experiments.run import Run

NAN = math.nan


def rows_with(rows: list[dict[str, Any]], at: int, **bad: Any) -> list[dict[str, Any]]:
    """The rows, one of them with other numbers."""
    return [{**row, **bad} if place == at else row for place, row in enumerate(rows)]


# --- memorising networks


def memorising(bad: dict[str, Any] | None = None, kind: str = "", change: Any = None) -> dict[str, Run]:
    """10·N·D parameters; ``change(n, D)`` multiplies those of one kind, ``bad`` replaces numbers of the
    network in the middle."""
    rows = []
    for name in ("Linf", "L2-shared"):
        for size in (8, 16, 32):
            for n in (5, 10, 20):
                count = int(10 * n * size * (change(n, size) if name == kind else 1))
                count = count * 1000 if (n, size) == (5, 8) else count
                row = {
                    "seed": 0,
                    "D": size,
                    "n": n,
                    "kind": name,
                    "levels": 5,
                    "parameters": count,
                    "slack": 0.9,
                    "formula": count,
                }
                rows.append(row)
    return {"run": made("built-memorise", {"memorise": rows_with(rows, 10, **(bad or {}))})}


@judged("EP-train", "built")
def _training() -> Table:
    twice = {(20, 32): 2}
    return Table(
        holds=Case(memorising(), "HOLDS", 0.9, 1e-6),
        fails=Case(memorising({"slack": -0.5}), "FAILS", -0.5, 1e-6),
        at_bound=Case(memorising({"slack": 1e-6}), "HOLDS", 1e-6, 1e-6),
        bad_seed=Case(memorising({"formula": 1}), "FAILS", 1.0, 0.0),
        nan=Case(memorising({"slack": NAN}), "FAILS", None, 1e-6),
        more=(
            Case(memorising({"slack": 0.9e-6}), "FAILS", 0.9e-6, 1e-6),
            Case(memorising({"formula": None}), "FAILS", 1.0, 0.0),
            *(
                Case(memorising(kind=kind, change=lambda n, size: twice.get((n, size), 1)), "FAILS", 2.0, 1.1)
                for kind in ("Linf", "L2-shared")
            ),
            # The largest d alone is not enough: four times too much at d = 16 grows by 8 from 8 to 16.
            *(
                Case(
                    memorising(kind=kind, change=lambda n, size: 4 if (n, size) == (20, 16) else 1),
                    "FAILS",
                    3.0,
                    1.1,
                )
                for kind in ("Linf", "L2-shared")
            ),
            *(
                Case(
                    memorising(kind=kind, change=lambda n, size: 4 if (n, size) == (10, 32) else 1),
                    "FAILS",
                    3.0,
                    1.1,
                )
                for kind in ("Linf", "L2-shared")
            ),
        ),
    )


# --- f* and its grid


def fstar(at: int = 1, **bad: Any) -> dict[str, Run]:
    """Two seeds in dimensions 2, 3, 4, in no order: four cells' corners a dimension, 7·4^d weights of which
    three are zero."""
    rows = []
    for seed in (0, 1):
        for d in (3, 2, 4):
            full = 7 * 4**d
            row = {
                "seed": seed,
                "d": d,
                "cells": 3,
                "hats": 4**d,
                "parameters": full,
                "formula": full + 3,
                "zeros": 3,
                "eps": 0.2,
                "delta": 0.08,
            }
            row |= {"slope": 4.0, "local_slope": 4.5, "slope_bound": 5.0, "error": 0.1, "error_bound": 0.5}
            rows.append({**row, "slack": 0.2, "f_star_on_balls": 0.7, "f_star_bound": 0.6})
    return {"run": made("built-fstar", {"fstar": rows_with(rows, at, **bad)})}


@judged("EP-f*", "exact")
def _fstar() -> Table:
    return Table(
        holds=Case(fstar(), "HOLDS", 0.8, 1 + 1e-6),
        fails=Case(fstar(slope=6.0), "FAILS", 1.2, 1 + 1e-6),
        at_bound=Case(
            fstar(
                slope=1 + 1e-6, local_slope=1 + 1e-9, slope_bound=1.0, f_star_on_balls=0.0, f_star_bound=1e-9
            ),
            "HOLDS",
        ),
        bad_seed=Case(fstar(at=4, local_slope=5.5), "FAILS", 1.1, 1 + 1e-9),
        nan=Case(fstar(slope=NAN), "FAILS", None, 1 + 1e-6),
        more=(
            Case(fstar(slope=5.0 + 2e-5), "FAILS", None, 1 + 1e-6),
            Case(fstar(local_slope=5.0 + 2e-8), "FAILS", None, 1 + 1e-9),
            Case(fstar(f_star_on_balls=0.5), "FAILS", 0.1, 1e-9),
            Case(fstar(f_star_on_balls=NAN), "FAILS", None, 1e-9),
            Case(fstar(local_slope=NAN), "FAILS", None, 1 + 1e-9),
        ),
    )


@judged("EP-f*", "grid network")
def _grid() -> Table:
    four = math.log(4)
    return Table(
        holds=Case(fstar(), "HOLDS", 0.2, 0.0),
        fails=Case(fstar(slack=-0.1), "FAILS", -0.1, 0.0),
        # an error as large as its bound is within it; 4^d grows at exactly ln(cells + 1)
        at_bound=Case(fstar(error=0.5, slack=1e-300), "HOLDS", 1e-300, 0.0),
        bad_seed=Case(fstar(at=4, error=0.6), "FAILS", 1.2, 1.0),
        nan=Case(fstar(slack=NAN), "FAILS", None, 0.0),
        more=(
            Case(fstar(slack=0.0), "FAILS", 0.0, 0.0),
            Case(fstar(error=NAN), "FAILS", None, 1.0),
            Case(fstar(zeros=4), "FAILS", 1.0, 0.0),
            # The coarsest grid sets the rate.
            Case(fstar(cells=9), "HOLDS", 0.2, 0.0),
            Case(fstar(formula=None), "FAILS", 1.0, 0.0),
            # d = 3 half as large: from 2 to 3 the count only doubles; in either seed
            *(
                Case(fstar(at=at, parameters=7 * 32, formula=7 * 32 + 3), "FAILS", math.log(2), four)
                for at in (0, 3)
            ),
            Case(fstar(at=5, parameters=7 * 255, formula=7 * 255 + 3), "FAILS", math.log(255 / 64), four),
        ),
    )


# --- manifolds and the table


def manifold(at: int = 1, **bad: Any) -> dict[str, Run]:
    """For k = 2, 3 and d = 16, 32, 64: 30·k·d parameters."""
    rows = []
    for k in (2, 3):
        for d in (16, 32, 64):
            count = 30 * k * d
            row = {
                "seed": 0,
                "k": k,
                "d": d,
                "cells": 9,
                "parameters": count,
                "formula": count,
                "slack": 0.2,
                "clean_test": 1.0,
            }
            rows.append({**row, "attacked": 1.0})
    return {"run": made("manifold", {"manifold": rows_with(rows, at, **bad)})}


@judged("EP-manifold", "built")
def _manifold() -> Table:
    return Table(
        holds=Case(manifold(), "HOLDS", 0.2, 0.0),
        fails=Case(manifold(slack=-0.1), "FAILS", -0.1, 0.0),
        # zeros are not counted, so fewer than the formula is right
        at_bound=Case(manifold(slack=1e-300, formula=10**6), "HOLDS", 1e-300, 0.0),
        bad_seed=Case(manifold(at=4, attacked=0.75), "FAILS", 0.25, 0.0),
        nan=Case(manifold(clean_test=NAN), "FAILS", None, 0.0),
        more=(
            Case(manifold(slack=0.0), "FAILS", 0.0, 0.0),
            Case(manifold(slack=NAN), "FAILS", None, 0.0),
            Case(manifold(attacked=NAN), "FAILS", None, 0.0),
            Case(manifold(clean_test=0.875), "FAILS", 0.125, 0.0),
            Case(manifold(formula=1), "FAILS", 1.0, 0.0),
            # twice too many at d = 64 for k = 2, then for k = 3
            *(
                Case(manifold(at=at, parameters=30 * k * 128, formula=10**9), "FAILS", 2.0, 1.1)
                for at, k in ((2, 2), (5, 3))
            ),
        ),
    )


# --- the separation of real images

EPS = {"separated": 2.0, "far": 10.0}


def separation(
    dataset: str,
    train: int = 188,
    test: int = 207,
    eps: float = 0.03,
    whole: bool = True,
    bad: str = "",
    **printed: float,
) -> dict[str, Run]:
    """Pairs of images ``train`` and ``test`` bytes apart; the other data set is far from any bound the other
    way."""
    parts: dict[str, list[dict[str, Any]]] = {"closest": []}
    said = {"train": 0.737, "test": 0.812, **{key.split("_")[0]: value for key, value in printed.items()}}
    lines = {pair: {"eps": eps, "whole": whole, "printed": value} for pair, value in said.items()}
    tensors: dict[str, torch.Tensor] = {}
    other = "cifar10" if dataset == "mnist" else "mnist"
    for name, gaps in ((other, {"train": 1, "test": 1}), (dataset, {"train": train, "test": test})):
        for pair, gap in gaps.items():
            part = f"closest[dataset={name},pair={pair}-train]"
            left, right = (
                torch.full((1, 2, 2), 10, dtype=torch.uint8),
                torch.full((1, 2, 2), 10, dtype=torch.uint8),
            )
            # one pixel goes down, one up: the largest difference counts, whatever its sign
            left[0, 0, 0], right[0, 1, 1] = 10 + gap, 11
            labels = torch.tensor([3, 3 if (name, bad) == (dataset, f"{pair} label") else 5])
            shift = 1e-9 if (name, bad) == (dataset, f"{pair} row") else 0.0
            row = {"dataset": name, "pair": f"{pair}-train", "separation": gap / 255 + shift, "bytes": gap}
            parts["closest"].append(
                {**row, **(lines[pair] if name == dataset else {"eps": 9.0, "whole": False})}
            )
            tensors |= {f"{part}/left": left, f"{part}/right": right, f"{part}/labels": labels}
    return {"run": made("image-separation", parts, tensors=tensors)}


@judged("EP-sep", "mnist-separated", "mnist-far", "cifar10-separated", "cifar10-far")
def _separated(reading: str) -> Table:
    dataset, kind = reading.split("-")
    factor = EPS[kind]
    # 51/255 = .2, so this ε is exactly on the bound
    edge = 0.2 / factor
    return Table(
        holds=Case(separation(dataset, 102, 153, edge), "HOLDS", 0.5, 1.0),
        fails=Case(separation(dataset, 17, 34, edge), "FAILS", 3.0, 1.0),
        at_bound=Case(separation(dataset, 51, 51, edge), "HOLDS", 1.0, 1.0),
        bad_seed=Case(separation(dataset, 51, 50, edge), "FAILS", 1.02, 1.0),
        nan=Case(separation(dataset, 102, 102, edge, bad="test label"), "FAILS", None, 1.0),
        more=(
            Case(separation(dataset, 50, 51, edge), "FAILS", 1.02, 1.0),
            Case(separation(dataset, 102, 102, edge, bad="train label"), "FAILS"),
            Case(separation(dataset, 102, 102, edge, bad="train row"), "FAILS"),
            Case(separation(dataset, 102, 102, edge, bad="test row"), "FAILS"),
            Case(separation(dataset, 1, 1, 0.0), "HOLDS", 0.0),
            Case(separation(dataset, 102, 153, edge, whole=False), "OUT_OF_SCOPE", 0.5, 1.0, "HOLDS"),
            Case(separation(dataset, 17, 153, edge, whole=False), "OUT_OF_SCOPE", 3.0, 1.0, "FAILS"),
        ),
    )


@judged("EP-sep", "mnist-table", "cifar10-table")
def _printed(reading: str) -> Table:
    dataset = reading.split("-")[0]
    # 188/255 = .7373, 207/255 = .8118
    return Table(
        holds=Case(separation(dataset), "HOLDS", 0.0, 0.0005),
        fails=Case(separation(dataset, train_train_printed=0.8), "FAILS", 0.063, 0.0005),
        at_bound="two numbers of three digits are equal or .001 apart, and the bound is half of that",
        bad_seed=Case(separation(dataset, test_train_printed=0.813), "FAILS", 0.001, 0.0005),
        nan=Case(separation(dataset, bad="test label"), "FAILS", None, 0.0005),
        more=(
            Case(separation(dataset, bad="train label"), "FAILS", None, 0.0005),
            Case(separation(dataset, train_train_printed=0.738), "FAILS", 0.001, 0.0005),
            Case(separation(dataset, whole=False), "OUT_OF_SCOPE", 0.0, 0.0005, "HOLDS"),
        ),
    )


# --- SVHN


def svhn(
    train: float = 24 / 255,
    test: float = 28 / 255,
    as_is: float = 24 / 255,
    eps: float = 0.031,
    published: bool = True,
    whole: bool = True,
) -> dict[str, Run]:
    """Distances without identical images, and the train-train one with them."""
    usual = {"dataset": "svhn", "eps": eps, "whole": whole}
    apart = [
        {**usual, "pair": "train-train", "separation": train, "printed": 0.094, "twins": 1},
        {**usual, "pair": "test-train", "separation": test, "printed": 0.110, "twins": 0},
    ]
    rows = [row | {"published": published} for row in apart]
    closest = [{**usual, "pair": "train-train", "separation": as_is, "printed": 0.094}]
    closest += [{**usual, "pair": "test-train", "separation": 0.9, "printed": 0.110}]
    return {"run": made("image-separation", {"apart": rows, "closest": closest}, datasets=["svhn"])}


@judged("EP-sep-svhn", "test-train", "train-train", "train-train without identical images")
def _svhn_cell(name: str) -> Table:
    key = {"test-train": "test", "train-train": "as_is"}.get(name, "train")
    value = 28 if key == "test" else 24
    return Table(
        holds=Case(svhn(), "HOLDS", 0.0, 0.0005),
        fails=Case(svhn(**{key: 0.0}), "FAILS", 0.11 if key == "test" else 0.094, 0.0005),
        at_bound="two numbers of three digits are equal or .001 apart, and the bound is half of that",
        bad_seed=Case(svhn(**{key: (value + 1) / 255}), "FAILS", 0.004, 0.0005),
        nan=Case(svhn(**{key: math.nan}), "FAILS", None, 0.0005),
        more=(
            Case(svhn(published=False), "OUT_OF_SCOPE", 0.0, 0.0005, "HOLDS"),
            Case(svhn(whole=False, **{key: 0.5}), "OUT_OF_SCOPE", None, 0.0005, "FAILS"),
        ),
    )


@judged("EP-sep-svhn", "separated without identical images")
def _svhn_separated() -> Table:
    return Table(
        holds=Case(svhn(train=0.25, test=0.5, as_is=0.0, eps=0.0625), "HOLDS", 0.5, 1.0),
        fails=Case(svhn(train=0.5, test=0.25, eps=0.25), "FAILS", 2.0, 1.0),
        at_bound=Case(svhn(train=0.25, test=0.5, eps=0.125), "HOLDS", 1.0, 1.0),
        bad_seed=Case(svhn(train=0.0, test=0.5), "FAILS"),
        nan=Case(svhn(train=math.nan), "FAILS"),
        more=(
            Case(svhn(published=False, train=0.25, test=0.5, eps=0.0625), "OUT_OF_SCOPE", 0.5, 1.0, "HOLDS"),
        ),
    )
