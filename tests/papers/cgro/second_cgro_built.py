"""CGRO's judges of appendix lemmas, built networks, the lower bound and the known density, read a second time."""

import itertools
import math
from fractions import Fraction

import numpy as np
from second_reading import (
    NAN,
    all_of,
    by,
    empty,
    exact,
    interval,
    least,
    num,
    power,
    ratio,
    rows,
    second,
    seeds,
    steepest,
    top,
)

from featscope.core.rules import BEND, CONSTANT, PROVEN_MARGIN, SAME


def of_each_seed(run, part, value, **labels):
    """The largest of a number over the rows of each seed."""
    found = rows(run, part, **labels)
    return seeds(top(value(row) for row in found if row["seed"] == seed) for seed in run.settings.seeds)


def growth(found, x, y, power_):
    """An exact count is O(x^power) step by step."""
    value = steepest([row[x] for row in found], [num(row[y]) for row in found])
    return exact("at most", value, power_ + BEND, predicted=power_, allowance=BEND)


# --- appendix A and D


@second("CG-LA.4", "as printed|2\\^d|by degree")
def cubic(runs, name):
    run, found = runs["run"], rows(runs["run"], "noise")
    allowed = {
        "as printed": lambda row: num(row["printed"]),
        "2^d": lambda row: 3 * num(row["used"]),
        "by degree": lambda row: 3 / math.log(row["d"]) ** (1 / 3),
    }[name[0]]
    told = interval("at most", of_each_seed(run, "noise", lambda row: num(row["small"]) - allowed(row)), 0.0)
    floor = least(allowed(row) for row in found)
    if name[0] == "2^d" or not floor >= 1:
        return told
    text = (
        "the lemma allows a share d/2^(1/d) of"
        if name[0] == "as printed"
        else "the share allowed, 3/(ln d)^⅓, is"
    )
    return empty(told, f"{text} at least {floor:.4g}")


@second("CG-LD.2", places=["error"])
def square(runs, name):
    found = rows(runs["run"], "square")

    def spread(column):
        each = [row[column] / row["logarithm"] for row in found]
        return exact("at most", top(each) / each[0] if each else NAN, CONSTANT)

    return all_of(
        {
            "error ÷ ε": exact("at most", top(num(row["measured"]) / row["error"] for row in found), 1.0),
            "parameters": spread("parameters"),
            "depth": spread("depth"),
        }
    )


@second("CG-LD.3", places=["error"])
def product(runs, name):
    found = rows(runs["run"], "product")
    parts = {
        "error ÷ ε": exact("at most", top(num(row["measured"]) / row["error"] for row in found), 1.0),
        "where a factor is 0": exact("at most", top(row["on_axes"] for row in found), 0.0),
        "outside [0, B²]": exact("at most", top(row["outside"] for row in found), SAME),
    }
    for size, same in by(found, "bound").items():
        parts[f"parameters, B={size:g}"] = growth(same, "logarithm", "parameters", 2.0)
    return all_of(parts)


@second("CG-PD.5")
def pieces(runs, name):
    found = rows(runs["run"], "pieces")
    most = top(num(row["pieces"]) / 2 ** row["units"] for row in found)
    return exact("at most", most, 1.0, shapes=len({row["shape"] for row in found}))


# --- §1 (C), Theorem 5.2


def built_counts(found, kind, dimension):
    """Linear in N at the largest D, and in D at the largest N; ℓ2 with nets of its own after its levels."""
    most_d, most_n = max(row["D"] for row in found), max(row["n"] for row in found)
    mine = [row for row in found if row["kind"] == kind]
    along_n = [row for row in mine if row["D"] == most_d]
    along_d = [
        {
            **row,
            "count": row["parameters"] / max(row["levels"], 1) if kind == "L2-each" else row["parameters"],
        }
        for row in mine
        if row["n"] == most_n
    ]
    return {
        f"{kind}: growth in N": growth(along_n, "n", "parameters", 1.0),
        f"{kind}: growth in {dimension}": growth(along_d, "D", "count", 1.0),
    }


def mismatches(found):
    return exact(
        "at most", float(len([r for r in found if r["parameters"] != r["formula"]])), 0.0, cases=len(found)
    )


def margins(found):
    return exact("at least", least(row["slack"] for row in found), PROVEN_MARGIN, cases=len(found))


@second("CG-T5.2")
def counts(runs, name):
    found = rows(runs["run"], "cgro")
    parts = {"formula mismatches": mismatches(found)}
    for kind in ("Linf", "L2-shared", "L2-each"):
        parts |= built_counts(found, kind, "D")
    return all_of(parts)


@second("CG-C", places=["separation"])
def classifier(runs, name):
    run = runs["run"]
    found, sets = rows(run, "cgro"), [_memory(run, row) for row in rows(run, "memory")]
    bad = float(len([s for s in sets if not (s["separated"] and s["wide_enough"])])) if sets else NAN
    return all_of(
        {
            "clean test error": exact(
                "at most", 1 - least(r["clean_test"] for r in found), 0.0, cases=len(found)
            ),
            "robust train margin": margins(found),
            "separation, re-verified": exact("at most", bad, 0.0, sets=len(sets), certificate=sets),
            "robust test error on unseen points": exact(
                "at least", least(r["fooled_unseen"] for r in found), 0.5
            ),
        }
    )


def _memory(run, row):
    """Opposite points at least R − (R − 2δ)/8 apart, R > 2δ, in fractions."""
    x, y = (run.tensors[f"memory[D={row['D']}]/{key}"].double().numpy() for key in ("x", "y"))
    radius, apart = num(row["delta"]), num(row["separation"])
    if not (np.isfinite(x).all() and np.isfinite(y).all() and math.isfinite(radius + apart)):
        return {"separated": False, "wide_enough": False, "least": None}
    gaps = [
        max(abs(Fraction(p) - Fraction(q)) for p, q in zip(a.tolist(), b.tolist(), strict=True))
        for a in x[y > 0]
        for b in x[y < 0]
    ]
    room = Fraction(apart) - 2 * Fraction(radius)
    near = min(gaps, default=None)
    return {
        "separated": near is None or near >= Fraction(apart) - room / 8,
        "wide_enough": room > 0,
        "least": None if near is None else float(near),
    }


# --- Theorem 5.3


def slowest(pairs):
    """The least slope of log y in x between neighbours."""
    line = sorted((x, num(y)) for x, y in pairs)
    if len(line) < 2 or not all(0 < y < math.inf for _, y in line):
        return NAN
    return min(math.log(q / p) / (b - a) for (a, p), (b, q) in itertools.pairwise(line))


@second("CG-T5.3", "exp\\(Ω\\(D\\)\\)", ["separation"])
def argument(runs, name):
    run = runs["run"]
    listed, shattered, counted = (rows(run, part) for part in ("listed", "shattered", "exact"))
    rates = [
        slowest((math.log(row["sites"]), row["dimension"]) for row in same)
        for same in by(counted, "mu").values()
    ]
    unseen = [num(r["labellings"]) - num(r["patterns"]) + num(r["wrong"]) for r in shattered]
    built = [ratio(row["parameters"], row["needed"]) for row in shattered]
    return all_of(
        {
            "sites that are not there": exact(
                "at most", top(abs(r["promised"] - r["sites"]) for r in listed), 0.0
            ),
            "distance of sites ÷ 2δ": exact(
                "above", least(r["separation"] / 2 / r["radius"] for r in listed), 1.0
            ),
            "labellings not spelled": exact("at most", top(unseen), 0.0),
            "certified margin": exact("at least", least(row["slack"] for row in shattered), PROVEN_MARGIN),
            "built ÷ needed": exact("at least", least(built), 1.0),
            "VC dimension ÷ C(μ)n": exact(
                "at least", least(ratio(r["dimension"], r["by_entropy"]) for r in counted), 1.0
            ),
            "VC dimension against n": exact("at least", least(rates), 1 - BEND),
        }
    )


@second("CG-T5.3", "neural-separable", ["separation"])
def neural(runs, name):
    found = rows(runs["run"], "neural")
    return all_of(
        {
            "separation ÷ 2δ": exact(
                "above", least(num(r["separation"]) / 2 / r["radius"] for r in found), 1.0
            ),
            "clean error": exact("at most", top(row["clean_error"] for row in found), 0.0),
            "robust error": exact("at least", least(row["robust_error"] for row in found), 0.5),
            "sites ÷ 3^(D−1)": exact("at least", least(r["sites"] * 3 / 3 ** r["D"] for r in found), 1.0),
        },
        laws=len(found),
    )


@second("CG-T5.3", "Ω\\(exp\\(D\\)\\), some δ")
def some_radius(runs, name):
    groups = by(rows(runs["run"], "growth"), "radius")
    rates = {f"{radius:g}": slowest((r["D"], r["needed"]) for r in same) for radius, same in groups.items()}
    known = [rate for rate in rates.values() if not math.isnan(rate)]
    return exact("at least", max(known, default=NAN), 1.0, rate_by_radius=rates)


@second("CG-T5.3 EP-lower", "law", ["separation_Linf", "separation_L2"])
def packing_law(runs, name):
    found = rows(runs["run"], "law")
    apart = least(
        ratio(row[key], 2 * row["radius"]) for row in found for key in ("separation_Linf", "separation_L2")
    )
    return all_of(
        {
            "separation over 2δ": exact("at least", apart, 1.0),
            "clean error of x_D > ½": exact("at most", top(row["clean_error"] for row in found), 0.0),
            "robust error of x_D > ½": exact("at least", least(r["linear_robust_error"] for r in found), 0.5),
        }
    )


# --- Theorem E.1 and Proposition E.2 where the density is known


@second("CG-E.1-density", "known density, fixed network|as proven")
def fixed_network(runs, name):
    proven = name[0] == "as proven"
    labels = {} if proven else {"network": "linear"}
    share = of_each_seed(
        runs["run"],
        "gaps",
        lambda r: ratio(r["gap"], num(r["rate"]) * (num(r["flatness"]) + (1 if proven else 0))),
        **labels,
    )
    return interval("at most", share, CONSTANT)


@second("CG-E.1-density", "known density, constant network")
def constant_network(runs, name):
    found = rows(runs["run"], "gaps", network="constant")
    bound = CONSTANT * top(num(row["rate"]) * num(row["flatness"]) for row in found)
    share = of_each_seed(runs["run"], "gaps", lambda row: row["gap"], network="constant")
    return interval("at most", share, bound, flatness=top(row["flatness"] for row in found))


@second("CG-E.1-density", "rate in N")
def rate_in_samples(runs, name):
    run, parts = runs["run"], {}
    small = min(run.settings.dimensions)
    for network in ("linear", "constant"):
        found = rows(run, "gaps", network=network, D=small)
        fit = power([row["n"] for row in found], [row["gap"] for row in found])
        parts[network] = interval("at most", fit, BEND - 1 / (small + 2), exponent=fit[0])
    return all_of(parts)


def _share(value, size):
    value, size = num(value), num(size)
    if math.isnan(value) or math.isnan(size):
        return NAN
    return value / size if size > 0 else math.inf if value > 0 else 0.0


@second("CG-E.1-density", "remembering network, (δ as in the proof|δ apart)")
def remembered(runs, name):
    run, rule = runs["run"], "apart" if name[1] == "δ apart" else "proof"
    floor = of_each_seed(
        run, "memory", lambda r: _share(r["clean"], r["rate"] * num(r["flatness_high"])), radius_rule=rule
    )
    ceiling = of_each_seed(
        run,
        "memory",
        lambda r: r["radius"] / r["rate"] + _share(r["clean"], r["rate"] * num(r["flatness_low"])),
        radius_rule=rule,
    )
    value = ceiling[0] if ceiling[2] <= CONSTANT else floor[0]
    return interval("at most", (value, floor[1], ceiling[2]), CONSTANT, at_least=floor[0])


@second("CG-E.1-density", "terms", ["order"])
def proof_terms(runs, name):
    run, parts = runs["run"], {}
    for dim in run.settings.dimensions:
        found = rows(run, "terms", term="I", D=dim)
        fit = power([row["bandwidth"] for row in found], [row["value"] for row in found])
        parts[f"I, D={dim}"] = interval("at least", fit, 2 - BEND)
    shares = [ratio(row["value"], row["order"]) for row in rows(run, "terms", term="II")]
    parts["II"] = exact("at most", top(shares), CONSTANT)
    return all_of(parts)


@second("CG-E.2-density", "known density, (convex loss|small δ|any network)")
def lower(runs, name):
    network, most = {
        "convex loss": ("linear", math.inf),
        "small δ": ("wave", 1.0),
        "any network": ("wave", math.inf),
    }[name[1]]
    found = [row for row in rows(runs["run"], "constants", network=network) if row["phase"] <= most]
    shown = {f"{row['phase']:g}": row["constant"] for row in found}
    return exact(
        "at least", least(row["constant"] for row in found), 1 / CONSTANT, constant_over_phases=shown
    )
