"""EP's judges, read a second time."""

import itertools
import math

from second_cgro_built import built_counts, growth, margins, mismatches
from second_reading import (
    NAN,
    all_of,
    by,
    exact,
    interval,
    least,
    num,
    ordered,
    outside,
    power,
    ratio,
    rows,
    second,
    top,
)

from featscope.core.rules import BEND, MUCH, RECOMPUTED, ROUNDED_SLOPE, SAME


@second("EP-train")
def training(runs, name):
    found = rows(runs["run"], "memorise")
    parts = {
        "robust train margin": margins(found),
        "formula mismatches": mismatches(found),
        "√(Nd) over count": exact(
            "at most", top(ratio(r["lower_order"], r["parameters"]) for r in found), 1.0
        ),
    }
    for kind in ("Linf", "L2-shared"):
        parts |= built_counts(found, kind, "d")
    return all_of(parts)


@second("EP-f*", "exact")
def lipschitz(runs, name):
    found = rows(runs["run"], "fstar")
    slope, local = (top(ratio(r[key], r["slope_bound"]) for r in found) for key in ("slope", "local_slope"))
    short = top(num(row["f_star_bound"]) - num(row["f_star_on_balls"]) for row in found)
    return all_of(
        {
            "slope · ε": exact("at most", slope, 1 + ROUNDED_SLOPE, cases=len(found)),
            "2ε/(d_A + d_B)": exact("at most", local, 1 + SAME),
            "(1 − δ/ε) − least y·f* on balls": exact("at most", short, SAME),
        }
    )


@second("EP-f*", "grid network")
def grid(runs, name):
    found = rows(runs["run"], "fstar")
    seeds = [ordered(same, "d") for _, same in sorted(by(found, "seed").items())]
    rates = [
        math.log(b["parameters"] / a["parameters"]) / (b["d"] - a["d"])
        for seed in seeds
        for a, b in itertools.pairwise(seed)
    ]
    wrong = [
        row for row in found if row["formula"] is None or row["parameters"] + row["zeros"] != row["formula"]
    ]
    shown = {key: [row[column] for row in seeds[0]] for key, column in (("counts", "parameters"), ("d", "d"))}
    return all_of(
        {
            "robust margin": exact("above", least(row["slack"] for row in found), 0.0),
            "error over bound": exact(
                "at most", top(ratio(r["error"], r["error_bound"]) for r in found), 1.0
            ),
            "formula mismatches": exact("at most", float(len(wrong)), 0.0),
            "rate in d": exact(
                "at least", least(rates), math.log(1 + least(r["cells"] for r in found)), **shown
            ),
        }
    )


@second("EP-lower EP-manifold", "count|lower")
def exponential(runs, name):
    run, spec = runs["run"], runs["run"].settings
    delta = max(spec.deltas)
    mu = min(spec.mus, key=lambda found: abs(found - 0.1))
    found = ordered(rows(run, "count", delta=delta, mu=mu), "D")
    dims = [float(row["D"]) for row in found]
    # e^(bD) is a power b of e^D; a scale keeps e^D a float and the interval what it is
    fit = power([math.exp(d / 50) for d in dims], [row["needed"] for row in found])
    packed = math.log(math.ceil(0.5 / delta))
    return interval(
        "at least",
        tuple(end / 50 for end in fit),
        packed / 4 * (1 - BEND),
        rate_of_packing=packed,
        needed={str(d): row["needed"] for d, row in zip(dims, found, strict=True)},
        delta=delta,
        mu=mu,
    )


def _counts(run):
    return [{key: row[key] for key in ("k", "d", "parameters", "needed")} for row in rows(run, "manifold")]


@second("EP-manifold", "built")
def on_manifold(runs, name):
    found = rows(runs["run"], "manifold")
    over = [row for row in found if num(row["parameters"]) > num(row["formula"])]
    parts = {
        "robust margin": exact("above", least(row["slack"] for row in found), 0.0),
        "clean test error": exact("at most", 1 - least(row["clean_test"] for row in found), 0.0),
        "attacked test error": exact("at most", 1 - least(row["attacked"] for row in found), 0.0),
        "formula mismatches": exact("at most", float(len(over)), 0.0),
    }
    for k, same in sorted(by(found, "k").items()):
        parts[f"k={k}: growth in d"] = growth(same, "d", "parameters", 1.0)
    return all_of(parts, counts=_counts(runs["run"]))


@second("EP-table")
def cells(runs, name):
    run = runs["run"]
    table, behind = rows(run, "table"), rows(run, "manifold")
    shares = [
        *(ratio(row["train_lower"], row["train_upper"]) for row in table),
        *(_power_of_ten(math.log10(num(r["general_lower"])) - num(r["general_upper_log10"])) for r in table),
        *(ratio(row["needed"], row["parameters"]) for row in behind),
    ]
    own = {"dimension", "train_upper", "train_lower", "general_upper_log10", "general_lower"}
    shown = [{key: value for key, value in row.items() if key in own} for row in table]
    return exact("at most", top(shares), 1.0, table=shown, manifold=_counts(run))


def _power_of_ten(exponent):
    return 10.0**exponent if exponent < 300 else math.inf


# --- separation


def _line(run, dataset, column):
    return {
        pair: num(rows(run, "closest", dataset=dataset, pair=pair)[0].get(column))
        for pair in ("train-train", "test-train")
    }


def _distances(run, dataset):
    """Each from its pair of images; NaN where the pair is not what it should be, or its row says another."""
    found = {}
    for pair, written in _line(run, dataset, "separation").items():
        left, right, labels = (
            run.tensors[f"closest[dataset={dataset},pair={pair}]/{key}"].numpy()
            for key in ("left", "right", "labels")
        )
        fits = left.dtype == right.dtype == "uint8" and labels[0] != labels[1]
        gap = (
            max(abs(a - b) for a, b in zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)) / 255
        )
        found[pair] = gap if fits and abs(gap - written) < RECOMPUTED else NAN
    return found


def _scoped(run, dataset, found):
    whole = all(
        rows(run, "closest", dataset=dataset, pair=p)[0].get("whole") for p in ("train-train", "test-train")
    )
    return outside(found, () if whole else (f"{dataset} was not searched as a whole",))


@second("EP-sep", "(mnist|cifar10)-(separated|far)", ["separation"])
def separated(runs, name):
    run, dataset = runs["run"], name[1]
    apart = _distances(run, dataset)
    radius, near = top(_line(run, dataset, "eps").values()), least(apart.values())
    factor = 2.0 if name[2] == "separated" else MUCH
    share = math.inf if near == 0 else factor * radius / near
    shown = {"separation": near, "eps": radius, **{p.replace("-", "_"): gap for p, gap in apart.items()}}
    return _scoped(run, dataset, exact("at most", share, 1.0, **shown))


@second("EP-sep", "(mnist|cifar10)-table", ["separation"])
def as_printed(runs, name):
    run, dataset = runs["run"], name[1]
    apart, printed = _distances(run, dataset), _line(run, dataset, "printed")
    gaps = [NAN if math.isnan(gap) else abs(round(gap, 3) - printed[pair]) for pair, gap in apart.items()]
    shown = {p.replace("-", "_"): gap for p, gap in apart.items()}
    return _scoped(run, dataset, exact("at most", top(gaps), 0.0005, **shown))
