"""AT's judges of real images, read a second time: Tables 1 and 2, Figures 4 and 5."""

import math

from second_reading import (
    all_of,
    interval,
    least,
    mean,
    num,
    ordered,
    outside,
    ratio,
    rows,
    second,
    student,
    top,
)

from featscope.core.rules import CONSTANT, FEATURE_ERROR, MUCH, OWN_SET_READ, PRINTED_SHARE_REACHED, SMALL
from featscope.papers.at.printed import TABLE_1, TABLE_2

KEYS = {"NR": "feature_NR", "R": "feature_R"}
MADE_FROM = {"NR": "standard", "R": "adversarial"}


def unmet(runs):
    """What networks and sets lack, seed by seed: the printed accuracies, the read of its own set, the error."""
    run, printed = runs["run"], TABLE_1.get(runs["run"].settings.network.dataset)
    if printed is None:
        return ("the paper has no table of this data",)
    tested = rows(runs["tested"], "tested")
    told = []
    if not tested or not all(row.get("published") for row in tested):
        told.append("the files are not the published ones by their hash")
    for seed in run.settings.seeds:
        for method, goal in printed.items():
            row = rows(runs["tested"], "tested", method=method, seed=seed)[0]
            asked = [("clean_test", goal[0])] + (
                [("robust_test", goal[1])] if method == "adversarial" else []
            )
            for key, level in asked:
                value = num(row.get(key))
                if not value >= PRINTED_SHARE_REACHED * level:
                    told.append(
                        f"{method} network of seed {seed}: {key} {value:.3f}, below {PRINTED_SHARE_REACHED:g}·{level:g}"
                    )
        for row in rows(run, "read", seed=seed, relation="reader-is-reference"):
            name, read, error = row["set"], num(row["accuracy"]), num(row["error_mean"])
            if row["method"] != MADE_FROM[name]:
                continue
            if not read >= OWN_SET_READ:
                told.append(
                    f"reference of seed {seed} reads {read:.3f} of its set {name}, below {OWN_SET_READ:g}"
                )
            if not error <= FEATURE_ERROR:
                told.append(f"set {name} of seed {seed}: feature error {error:.3f}, above {FEATURE_ERROR:g}")
    return tuple(told)


def path(run, relation, method, seed, key):
    """Epochs and accuracies of one network."""
    found = ordered(rows(run, "curve", relation=relation, method=method, seed=seed), "step")
    return [(row["step"], num(row[key])) for row in found]


def _second_half(line):
    return [value for step, value in line if step > line[-1][0] / 2]


def cells(run, relation, over):
    return {
        method: {
            key: [over(path(run, relation, method, seed, key)) for seed in run.settings.seeds]
            for key in KEYS.values()
        }
        for method in ("standard", "adversarial")
    }


def over_starts(run, values):
    """Networks of one start count once: seed i and i + s, with s starts, have the same."""
    starts = len(values) // run.settings.networks_per_start
    return student(mean(v for i, v in enumerate(values) if i % starts == start) for start in range(starts))


def _inversion(run):
    how, own = run.settings.inversion, {"relation": "reader-is-reference"}
    errors = {
        name: [
            row["error_mean"] for row in ordered(rows(run, "read", set=name, method=method, **own), "seed")
        ]
        for name, method in MADE_FROM.items()
    }
    return {"start": how.start, "layer": how.layer, "steps": how.steps, "mean_error": errors}


#: statement → what is larger, what is smaller
SIDES = {
    "standard-non-robust": (("standard", "feature_NR"), ("standard", "feature_R")),
    "suppressed": (("standard", "feature_NR"), ("adversarial", "feature_NR")),
    "strengthened": (("adversarial", "feature_R"), ("standard", "feature_R")),
}


def _difference(runs, statement, relation, over):
    found = cells(runs["run"], relation, over)
    larger, smaller = (found[method][key] for method, key in SIDES[statement])
    gaps = [a - b for a, b in zip(larger, smaller, strict=True)]
    shown = {"by_seed": gaps, "cells": found, "inversion": _inversion(runs["run"])}
    return outside(interval("at least", over_starts(runs["run"], gaps), SMALL, **shown), unmet(runs))


NAMES = r"(standard-non-robust|suppressed|strengthened)"
WHO = r"-(reader-is-reference|same-start|other-start)"
OTHER_RUNS = r"(?:-few-images-width-\d+|-cifar10|-svhn)?"


@second("AT-T1", NAMES + WHO + OTHER_RUNS)
@second("AT-T1", NAMES + r"-(other-start)(?:-grey|-black|-image|-small-steps)")
def at_the_end(runs, name):
    return _difference(runs, name[1], name[2], lambda line: line[-1][1])


@second("AT-F4", NAMES + WHO)
def late(runs, name):
    return _difference(runs, name[1], name[2], lambda line: mean(_second_half(line)))


@second("AT-F4", "standard-ordered" + WHO)
def ordered_curves(runs, name):
    gaps = []
    for seed in runs["run"].settings.seeds:
        non_robust, robust = (
            _second_half(path(runs["run"], name[1], "standard", seed, KEYS[key])) for key in ("NR", "R")
        )
        gaps.append(least(a - b for a, b in zip(non_robust, robust, strict=True)))
    return outside(interval("at least", over_starts(runs["run"], gaps), 0.0, by_seed=gaps), unmet(runs))


@second("AT-T1", "table" + WHO + OTHER_RUNS)
def as_printed(runs, name):
    found = cells(runs["run"], name[1], lambda line: line[-1][1])
    printed = TABLE_1.get(runs["run"].settings.network.dataset)
    distances = {}
    for method, row in found.items():
        for key, values in row.items():
            value, low, high = over_starts(runs["run"], values)
            centre = getattr(printed[method], key) if printed else math.nan
            nearest = top([0.0, low - centre, centre - high])
            distances[f"{method} {key}"] = (
                abs(value - centre),
                nearest,
                top([abs(low - centre), abs(high - centre)]),
            )
    worst = tuple(top(distance[i] for distance in distances.values()) for i in range(3))
    gaps = {key: distance[0] for key, distance in distances.items()}
    return outside(interval("at most", worst, SMALL, gaps=gaps, cells=found), unmet(runs))


# --- targeted attacks


def seen(run, dataset, view):
    """Lists of rows, one for each value of the interval; what is lacking; what else is shown."""
    settings = run.settings
    if view == "-fixed-networks":
        where = {"dataset": dataset, "seed": settings.seeds[0]}
        again = [rows(run, "redrawn", draw=i, **where) for i in range(1, settings.draws)]
        return [rows(run, "rates", **where), *again], (), {}
    if not view:
        return [rows(run, "rates", dataset=dataset, seed=seed) for seed in settings.seeds], (), {}
    at = {
        eps: [rows(run, "reach", dataset=dataset, eps=eps, seed=seed) for seed in settings.seeds]
        for eps in settings.reach
    }
    follows = {eps: least(rate(groups, "RF", "own_head")) for eps, groups in at.items()}
    enough = [eps for eps in sorted(at) if follows[eps] >= 0.5]
    radius = (enough or [max(at)])[0]
    lacks = f"{follows[radius]:.3f} at {radius:.3g}"
    rule = "RF-PGD moves its own reference (own head ≥ 0.5 in every seed) at a radius that was tried"
    shown = {"radius": radius, "own_head_by_radius": {f"{eps:.3g}": share for eps, share in follows.items()}}
    return at[radius], () if enough else (f"{rule}: {lacks}",), shown


def rate(groups, attack, column):
    """The mean over class pairs, for each group."""
    return [mean(row[column] for row in group if row["attack"] == attack) for group in groups]


def _scope(run, dataset):
    """A third of the way from a tenth to 1; adversarially trained networks keep a third under attack."""
    told, learned = [], {}
    for method in ("standard", "adversarial"):
        found = ordered(rows(run, "learned", dataset=dataset, method=method), "seed")
        learned[method] = found
        clean = least(row["clean_test"] for row in found)
        if not clean >= 0.1 + 0.9 / 3:
            told.append(f"clean accuracy ({method}) ≥ 0.4: {clean:.3f}")
    # a network that is right nowhere keeps nothing
    shares = [
        0.0
        if row["clean_test"] == row.get("robust_test") == 0
        else ratio(row.get("robust_test"), row["clean_test"])
        for row in learned["adversarial"]
    ]
    kept = least(shares)
    if not kept >= 1 / 3:
        told.append(f"robust ÷ clean accuracy (adversarial) ≥ 0.333: {kept:.3f}")
    return tuple(told)


def _shown(groups, unit, more):
    kinds = ("standard", "adversarial")
    attacks = ("NRF", "RF")
    return {
        f"by_{unit}": {f"{a} on {m}": rate(groups, a, m) for m in kinds for a in (*attacks, "noise")},
        "searches": {f"{a} {c}": rate(groups, a, c) for a in attacks for c in ("own_head", "distance")},
        "printed_cifar10": {f"{a} on {m}": mean(TABLE_2[m][a]) for m in kinds for a in attacks},
        f"{unit}s": len(groups),
        **more,
    }


def _unit(view):
    return "draw" if view == "-fixed-networks" else "seed"


def _gap(groups, network, high, low, factor):
    return student(
        a - factor * b for a, b in zip(rate(groups, high, network), rate(groups, low, network), strict=True)
    )


@second("AT-T2", "(mnist|cifar10)-(standard|standard-much|adversarial-order)(|-fixed-networks|-moved)")
def contrast(runs, name):
    run, dataset = runs["run"], name[1]
    groups, lacks, more = seen(run, dataset, name[3])
    shown = _shown(groups, _unit(name[3]), more)
    if name[2] == "standard":
        found = interval("above", _gap(groups, "standard", "NRF", "RF", 1), 0.0, **shown)
    elif name[2] == "standard-much":
        found = interval("at least", _gap(groups, "standard", "NRF", "RF", MUCH), 0.0, **shown)
    else:
        found = interval("above", _gap(groups, "adversarial", "RF", "NRF", 1), 0.0, **shown)
    return outside(found, (*_scope(run, dataset), *lacks))


@second("AT-T2", "(mnist|cifar10)-adversarial-(low|small)(|-fixed-networks)")
def low_rates(runs, name):
    run, dataset = runs["run"], name[1]
    groups, lacks, more = seen(run, dataset, name[3])
    usual, parts = rate(groups, "NRF", "standard"), {}
    for attack in ("NRF", "RF"):
        found = rate(groups, attack, "adversarial")
        if name[2] == "small":
            parts[attack] = interval("at most", student(found), SMALL)
        else:
            gaps = [CONSTANT * a - u for a, u in zip(found, usual, strict=True)]
            parts[attack] = interval("at most", student(gaps), 0.0)
    shown = _shown(groups, _unit(name[3]), more)
    return outside(all_of(parts, **shown), (*_scope(run, dataset), *lacks))
