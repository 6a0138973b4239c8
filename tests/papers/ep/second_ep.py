"""EP's judges, read a second time."""

import itertools
import math
from dataclasses import replace

from second_cgro_built import built_counts, growth, margins, mismatches
from second_reading import (
    NAN,
    all_of,
    by,
    empty,
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
    student,
    top,
)

from featscope.core.rules import BEND, MUCH, RECOMPUTED, ROUNDED_SLOPE, SAME


@second("EP-train")
def training(runs, name):
    found = rows(runs["run"], "memorise")
    parts = {
        "robust train margin": margins(found),
        "formula mismatches": mismatches(found),
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


def _bits(share):
    return -share * math.log2(share) - (1 - share) * math.log2(1 - share)


def _fewest(points):
    """By trying: the least M for which M layers of M units with M³ weights may shatter so many points."""
    m = 1
    while True:
        r = m**3
        if m + m**4 * math.log2(4 * math.e * r * math.log2(2 * math.e * r)) >= points:
            return m
        m += 1


def _opens(spec, linear):
    """The first dimension whose packing needs more parameters than a linear classifier has."""
    low, high = 1e-12, 0.5
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _bits(middle) < 1 - _bits(spec.mu) else (low, middle)
    a_side = math.ceil(0.5 / spec.eps)
    return next(d for d in itertools.count(2) if _fewest(low * a_side ** (d - 1)) > linear(d))


def _packings(found, spec):
    a_side = math.ceil(0.5 / spec.eps)
    parts = {
        "separation ÷ 2ε": exact("at least", least(r["separation"] for r in found) / spec.eps / 2, 1.0),
        "in the cube": exact("at least", least(r["inside"] for r in found), 1.0),
        "clean error of x_k > ½": exact("at most", top(r["clean_error"] for r in found), 0.0),
        "robust error of x_k > ½": exact("at least", least(r["robust_error"] for r in found), 0.5),
        "sites ÷ L^(k−1)": exact(
            "at least", least(r["sites"] * a_side / a_side ** r["k"] for r in found), 1.0
        ),
    }
    bent = [row["curvature"] for row in found if row["bend"] > 0]
    return parts | ({"curvature of what is bent": exact("at least", least(bent), BEND)} if bent else {})


@second("EP-lower EP-manifold", "count|lower", ["separation"])
def exponential(runs, name):
    run, spec, general = runs["run"], runs["run"].settings, name[0] == "count"
    laws = [row for row in rows(run, "packed") if (row["k"] == row["d"]) is general]
    found = ordered(rows(run, "growth", kind="general" if general else "manifold"), "dimension")
    # e^(bD) is a power b of e^D; a scale keeps e^D a float and the interval what it is
    fit = power([math.exp(row["dimension"] / 50) for row in found], [row["needed"] for row in found])
    least_rate = math.log(math.ceil(0.5 / spec.eps)) / 4 * (1 - BEND)
    rate = interval("at least", tuple(end / 50 for end in fit), least_rate)
    whole = all_of(_packings(laws, spec) | {"rate": rate}, laws=len(laws))
    share = top(ratio(row["needed"], row["linear"]) for row in found)
    shown = {"needed": {str(row["dimension"]): row["needed"] for row in found}}
    if whole.verdict == "HOLDS" and not share > 1:
        whole = empty(whole)
        shown["opens_at"] = {"dimension": _opens(spec, lambda d: d + 1 if general else spec.ambient + 1)}
    return replace(whole, evidence={**whole.evidence, **shown})


@second("EP-train-lower", places=["furthest", "delta_over_eps"])
def training_argument(runs, name):
    held, grown = rows(runs["run"], "held"), rows(runs["run"], "training")
    untried = top(2 ** row["points"] - row["labellings"] for row in held)
    fit = power([row["n"] * row["d"] for row in grown], [row["needed"] for row in grown])
    return all_of(
        {
            "furthest point ÷ δ": exact("at most", top(row["furthest"] for row in held), 1 + SAME),
            "separation ÷ 2ε": exact("at least", least(row["separation"] for row in held), 1 - SAME),
            "labellings that were not tried": exact("at most", untried, 0.0),
            "δ < ε": exact("at most", top(row["delta_over_eps"] for row in held), 1.0),
            "exponent of the count in N·d": interval("at least", fit, 0.5 - BEND),
        }
    )


def _counts(run):
    return [{key: row[key] for key in ("k", "d", "parameters")} for row in rows(run, "manifold")]


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
    table = rows(runs["run"], "table")
    shares = {
        "robust training": [ratio(row["train_lower"], row["train_upper"]) for row in table],
        "general case": [_share_of_log10(row, "general") for row in table],
        "k-dimensional manifold": [_share_of_log10(row, "manifold") for row in table],
    }
    tightest = sorted(shares, key=lambda cell: -_known(top(shares[cell])))
    parts = {cell: exact("at most", top(shares[cell]), 1.0) for cell in tightest}
    shown = [{key: value for key, value in row.items() if key != "part"} for row in table]
    return all_of(parts, table=shown)


def _share_of_log10(row, cell):
    """lower ÷ 10^upper; what no float holds is infinite."""
    exponent = math.log10(num(row[f"{cell}_lower"])) - num(row[f"{cell}_upper_log10"])
    return math.inf if exponent >= 300 else 10.0**exponent


def _known(value):
    return value if math.isfinite(value) else 0.0


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


@second("EP-architecture")
def architecture(runs, name):
    """Areas by hand: trapezia between neighbouring radii."""
    run = runs["run"]
    gains, clean = [], {"lenet5": [], "vit": []}
    for seed in run.settings.seeds:
        heights = {}
        for net in clean:
            found = [
                r
                for r in rows(run, "curve")
                if (r["architecture"], r["method"], r["seed"]) == (net, name[0], seed)
            ]
            points = sorted((r["radius"], num(r["accuracy"])) for r in found)
            clean[net].append(points[0][1])
            area = sum((b - a) * (p + q) / 2 for (a, p), (b, q) in itertools.pairwise(points))
            heights[net] = area / points[-1][0]
        gains.append(heights["vit"] - heights["lenet5"])
    unmet = sum(not least(values) >= 0.4 for values in clean.values())
    return outside(interval("above", student(gains), 0.0, by_seed=gains), unmet)
