"""FA's judges of data, start, training and its theorems, read a second time."""

import math
import statistics

from second_fa_openings import NEARLY_ALL, at_radius, bound_opens, proof, stays, window
from second_reading import (
    Expected,
    all_of,
    by,
    errors,
    exact,
    hits,
    interval,
    last,
    least,
    mean,
    num,
    ordered,
    power,
    rows,
    second,
    seeds,
    shares,
    top,
)

from featscope.certificates.fa import verify
from featscope.core.rules import BEND, CONSTANT, SAME, SETTLED, SMALL, SPEAKS


def proved(run, part, **labels):
    """What the stored certificates of a part settle."""
    inner = ",".join(f"{key}={value}" for key, value in labels.items())
    names = ("w", "b", "a", "x", "y", "delta", "certificate")
    found = verify(*(run.tensors[f"{part}[{inner}]/{name}"].double().numpy() for name in names))
    pairs = list(zip(found.lower.tolist(), found.upper.tolist(), strict=True))
    agreed = [low == up or abs(up - low) <= SETTLED * up < math.inf for low, up in pairs]
    return {"points": len(pairs), "settled": sum(agreed), "least_lower": min(low for low, _ in pairs)}


def last_of(run, net, column):
    """The last value of each seed, by seed."""
    return [num(value) for _, value in sorted(last(rows(run, net), column).items())]


# --- data and start


def _draws(run, names):
    """Draws on which some property fails or was not looked at, and all draws."""
    draws = by(rows(run, "draws"), "draw")
    fine = [d for d, same in draws.items() if set(names) <= {r["property"] for r in same if r["met"]}]
    return len(draws) - len(fine), len(draws)


def _property(run, name):
    found = rows(run, "draws", property=name)
    values = [num(row["value"]) for row in found]
    missed = len([row for row in found if row["met"] is False])
    return {"bound": found[0]["bound"], "max": top(values), "mean": mean(values), "failures": missed}


def rate(run, names, stated):
    failed, draws = _draws(run, names)
    return interval(
        "at most",
        hits(failed, draws),
        max(stated, SMALL),
        stated_failure_probability=stated,
        draws=draws,
        failed=failed,
        properties={name: _property(run, name) for name in names},
    )


@second("FA-PA.6", "paper|assumption|literal", ["value", "failure_probability"])
def seven(runs, name):
    names = [f"A.6.{i}" for i in range(1, 8)] + (["A.6.literal.6"] if name[0] == "literal" else [])
    return rate(runs["run"], names, rows(runs["run"], "stated")[0]["failure_probability"])


@second("FA-PA.10", places=["value"])
def norms(runs, name):
    spec = runs["run"].settings
    d, m = spec.law.d, spec.training.m
    return rate(runs["run"], ["A.10 w", "A.10 b"], 4 * m * math.exp(-(math.log(d) ** 2)) + 2 / m**3)


@second("FA-PA.12", "paper|assumption-(literal|lemma)", ["value"])
def activated(runs, name):
    spec = runs["run"].settings
    k, n, m = spec.law.k, spec.training.n, spec.training.m
    stated = m**-0.01 + 2 * m * k * math.exp(-n / (9 * k * m**2))
    opens = math.ceil(2 * NEARLY_ALL)
    why = f"m^−0.01 + … = {stated:.3f} of the draws may fail: nearly all, before k = 2m = {opens}"
    return stays(rate(runs["run"], ["A.12"], min(stated, 1.0)), stated > 1 - SMALL, why, k=opens)


@second("FA-PC.3", "paper|assumption-(literal|lemma)", ["value"])
def activated_fine(runs, name):
    spec = runs["run"].settings
    k, n, h = spec.law.k, spec.training.n, spec.training.h
    stated = (h * k) ** -0.01 + 2 * h * k**2 * math.exp(-n / (9 * k**3 * h**2))
    opens = math.ceil(NEARLY_ALL)
    why = f"(hk)^−0.01 + … = {stated:.3f} of the draws may fail: nearly all, before hk = {opens}"
    return stays(rate(runs["run"], ["C.3"], min(stated, 1.0)), stated > 1 - SMALL, why, k=opens)


@second("FA-PA.12", "limit")
def without_end(runs, name):
    found = rows(runs["run"], "activation")
    over = [num(row["fails"]) - num(row["allowed"]) for row in found]
    at = over.index(max(over, key=lambda x: math.inf if math.isnan(x) else x))
    place = {key: value for key, value in found[at].items() if key != "part" and value is not None}
    broken = [row["k"] for row in found if row["fails"] > row["allowed"]]
    return exact("at most", top(over), 0.0, worst_at=place, breaks_at_k=min(broken, default=None))


def _never(name):
    return lambda runs, matched: rate(runs["run"], [name], 0.0)


second("FA-PA.13", places=["value"])(_never("A.13"))
second("FA-PA.14", places=["value"])(_never("A.14"))


def _first_step(name):
    def read(runs, matched):
        run = runs["run"]
        found = rate(run, [name], 0.0)
        values = [row["value"] for row in rows(run, "draws", property=name)]
        shown = {"after": mean(values), "least": least(values)}
        if name == "B.1":
            shown["before"] = mean(row["value"] for row in rows(run, "draws", property="B.1 before"))
        return Expected(**{**found.__dict__, "evidence": {**found.evidence, "activation": shown}})

    return read


second("FA-LB.1")(_first_step("B.1"))
second("FA-LC.5")(_first_step("C.5"))

#: claim → reading → the routes compared
ROUTES = {
    "FA-L5.1": {"2-class": ["binary_decomposition"], "compact": ["binary_rotated", "fine_rotated"]},
    "FA-L5.2": {
        "2-class": ["binary_autograd", "binary_decomposition"],
        "k-class": ["fine_autograd", "fine_decomposition"],
    },
    "FA-CB.4": {"2-class": ["binary_marginal"], "k-class": ["fine_marginal"]},
    "FA-LC.6": {"k-class": ["fine_decomposition"]},
    "FA-LC.7": {"k-class": ["fine_marginal"]},
    "FA-LC.8": {"k-class": ["fine_autograd", "fine_decomposition"]},
}


def _route(wanted):
    def read(runs, name):
        found = rows(runs["run"], "routes")
        apart = {key: top(row[key] for row in found) for key in wanted[name[0]]}
        return exact("at most", top(apart.values()), SAME, relative_errors=apart)

    return read


for claim, wanted in ROUTES.items():
    second(claim)(_route(wanted))

# --- along training


def _active(found, first):
    shares_ = [num(row["own_active"]) for row in found]
    idle = 1 - least(shares_)
    return exact(
        "at most",
        idle,
        0.0,
        inactive_share_at_worst=idle,
        first_recorded=first,
        rows=len(found),
        rows_with_inactive=len([share for share in shares_ if share < 1]),
        least=least(shares_),
    )


@second("FA-L5.5", "paper")
def active(runs, name):
    found = [row for row in rows(runs["run"], "binary") if row["step"] >= 1]
    return _active(found, [row["own_active"] for row in found[:3]])


def _active_flow(run, net):
    start = rows(run, "start", net=net)
    found = [row for row in start if row["step"] >= 1] + rows(run, net)
    return _active(found, [row["own_active"] for row in start])


@second("FA-L5.5", "assumption-(literal|lemma|lemma-large)")
def active_flow(runs, name):
    return _active_flow(runs["run"], "binary")


@second("FA-LC.10", "activation, (literal|lemma)")
def active_flow_fine(runs, name):
    return _active_flow(runs["run"], "fine")


PROOF_PLACES = ["learning_rate", "epsilon", "most_steps", "least_steps", "least_steps_fine"]


def _growth(run, net):
    p = proof(run)
    columns = ("time", "lambda_min", "lambda_max")
    ends = list(zip(*(last_of(run, net, column) for column in columns), strict=True))
    windows = [(math.log(max(t, 1e-300)) / 4, 4 * math.log(t / p["learning_rate"] + 1)) for t, _, _ in ends]
    misses = [
        miss
        for (low, high), (_, small, large) in zip(windows, ends, strict=True)
        for miss in (low - small, large - high)
    ]
    shown = [{"lambda": [small, large], "time": t} for t, small, large in ends]
    found = exact("at most", top(misses), 0.0, ends=shown, low=windows[0][0], high=windows[0][1])
    return window(run, found, net == "fine")


@second("FA-LB.23", "assumption(-large)?", PROOF_PLACES)
def growth(runs, name):
    return _growth(runs["run"], "binary")


@second("FA-LC.23", "assumption(-large)?", PROOF_PLACES)
def growth_fine(runs, name):
    return _growth(runs["run"], "fine")


def _slope(run, net):
    late = [row for row in rows(run, net) if row["time"] is not None and not row["time"] < 1]
    fits = [
        power([row["time"] for row in same], [math.exp(num(row["lambda_mean"])) for row in same])
        for same in by(late, "seed").values()
    ]
    value, low, high = zip(*fits, strict=True) if fits else ((), (), ())
    ends = mean(value), least(low), top(high)
    parts = {"at least": interval("at least", ends, 0.25), "at most": interval("at most", ends, 4.0)}
    return all_of(parts, slope=ends[0])


@second("FA-LB.23", "rate")
def slope(runs, name):
    return _slope(runs["run"], "binary")


@second("FA-LC.23", "rate")
def slope_fine(runs, name):
    return _slope(runs["run"], "fine")


def _ratios(run, net):
    return [math.inf if value < 0 else value for value in last_of(run, net, "lambda_ratio")]


def _ratio(run, net):
    p, squared = proof(run), 2 if net == "fine" else 0
    bound, opens = 204 * p["k"] ** squared * p["epsilon"], bound_opens(204, squared)
    why = f"the bound allows a ratio of {1 + bound:.3g}; it is below {1 + SPEAKS:g} from k = {opens} on"
    return stays(exact("at most", top(_ratios(run, net)) - 1, bound), bound > SPEAKS, why, k=opens)


@second("FA-LB.24", "assumption(-large)?", PROOF_PLACES)
def ratio_binary(runs, name):
    return _ratio(runs["run"], "binary")


@second("FA-LC.24", "assumption(-large)?", PROOF_PLACES)
def ratio_fine(runs, name):
    return _ratio(runs["run"], "fine")


def _near_one(run, net):
    found = _ratios(run, net)
    return interval("at most", seeds(value - 1 for value in found), SMALL, ratios=found)


@second("FA-LB.24", r"o\(1\)(-large)?")
def near_one(runs, name):
    return _near_one(runs["run"], "binary")


@second("FA-LC.24", r"o\(1\)-large")
def near_one_fine(runs, name):
    return _near_one(runs["run"], "fine")


@second("FA-L5.3", "paper|assumption(-large)?")
def margin_gap(runs, name):
    low, high = (last_of(runs["run"], "binary", key) for key in ("margin_min", "margin_max"))
    gaps = [b - a for a, b in zip(low, high, strict=True)]
    shares_ = [math.inf if b <= 0 else gap / b for gap, b in zip(gaps, high, strict=True)]
    margins = [list(pair) for pair in zip(low, high, strict=True)]
    return interval("at most", seeds(shares_), SMALL, gaps=gaps, margins=margins)


@second("FA-LC.9", "(2|k)-class")
def signs(runs, name):
    found = rows(runs["run"], "binary" if name[1] == "2" else "fine")
    own = {key: least(row[key] for row in found) for key in ("lambda_min", "sigma_min")}
    other = {key: top(row[key] for row in found) for key in ("lambda_other_top", "sigma_other_top")}
    return exact("at most", top([*(-value for value in own.values()), *other.values()]), 0.0, **own, **other)


# --- along sweeps


def along(run, sweep, column):
    """The mean of each value of a sweep; what is not there is in no mean."""
    groups = sorted(by(rows(run, "setting", sweep=sweep), "at").items())
    return {at: mean(row[column] for row in same if row[column] is not None) for at, same in groups}


def fit(run, sweep, column, direction, bound):
    found, line = rows(run, "setting", sweep=sweep), along(run, sweep, column)
    shown = {
        "exponent_of": f"{column} in {sweep}",
        "values": list(line.values()),
        "at": list(line),
    }
    if any(num(row[column]) <= 0 for row in found):
        return Expected("FAILS", None, bound, shown, direction)
    fitted = power([row["at"] for row in found], [row[column] for row in found])
    return interval(direction, fitted, bound, **shown)


#: claim → reading → sweep, column, direction and bound
SWEEPS = {
    "FA-L5.3": {"scaling": ("n", "margin_gap", "at most", -BEND)},
    "FA-LB.24": {"scaling": ("n", "ratio_excess", "at most", -BEND)},
    "FA-LC.10": {"margins": ("n", "fine_margin_gap", "at most", -BEND)},
    "FA-LC.25": {"scaling": ("n", "fine_deviation", "at most", -BEND)},
    "FA-T4.6": {"n": ("n", "sphere_bound", "at most", -BEND)},
    "FA-T4.5": {
        "n/weights": ("n", "deviation", "at most", -BEND),
        "d alone/weights": ("d", "deviation", "at most", -BEND),
        "scaling/robust": ("k", "exact_over_root_dk", "at most", BEND),
        "scaling d/robust": ("d", "exact_over_root_dk", "at most", BEND),
        "talk/robust": ("talk", "exact_over_root_dk", "at most", BEND),
    },
    "FA-T4.7": {
        "n/weights": ("n", "fine_deviation", "at most", -BEND),
        "scaling/robust": ("k", "certified_over_root_d", "at least", -BEND),
        "scaling d/robust": ("d", "certified_over_root_d", "at least", -BEND),
    },
}


def _swept(wanted):
    return lambda runs, name: fit(runs["run"], *wanted[name[0]])


for claim, wanted in SWEEPS.items():
    second(claim, "|".join(wanted))(_swept(wanted))

# --- Theorems 4.5, 4.6, 4.7


REGIME = {
    "FA-T4.5": {"clean": ("clean_binary", errors), "robust": ("robust_binary", shares)},
    "FA-T4.7": {"clean": ("clean_fine", errors), "robust": ("robust_fine_certified", errors)},
}


def _regime(items, fine):
    def read(runs, name):
        run, (column, share) = runs["run"], items[name[2]]
        values = [row[column] for row in rows(run, "by_seed")]
        return window(run, interval("at most", share(values, run.settings.test_points), SMALL), fine)

    return read


for claim, items in REGIME.items():
    second(claim, "assumption(-large)?/(clean|robust)", PROOF_PLACES)(_regime(items, claim == "FA-T4.7"))


def _clean(column):
    def read(runs, name):
        run = runs["run"]
        values = [row[column] for row in rows(run, "table")]
        points = run.settings.test_points
        found = errors(values, points)
        return interval("at most", found, SMALL, clean=mean(values), points=points * len(values))

    return read


second("FA-T4.5", "paper/clean")(_clean("clean_binary"))
second("FA-T4.7", "paper/clean")(_clean("clean_fine"))


def _deviation(run, net):
    far, scale = (last_of(run, net, key) for key in ("deviation", "lambda_mean"))
    parts = [math.inf if b <= 0 else a / b for a, b in zip(far, scale, strict=True)]
    return interval("at most", seeds(parts), SMALL, deviation=far, lambdas=scale)


def _weights(net):
    def read(runs, name):
        found = _deviation(runs["run"], net)
        return found if name[1] == "paper" else window(runs["run"], found, net == "fine")

    return read


second("FA-T4.5", "(paper|assumption|assumption-large)/weights", PROOF_PLACES)(_weights("binary"))
second("FA-T4.7", "(paper|assumption|assumption-large)/weights", PROOF_PLACES)(_weights("fine"))


def _beyond(run, column, radius, unknown):
    """The share of points beyond a radius in each seed."""
    groups = sorted(by(rows(run, "radii"), "seed").items())
    values = [
        [unknown if row[column] is not None and math.isnan(row[column]) else row[column] for row in same]
        for _, same in groups
    ]
    known = [[value for value in seed if value is not None] for seed in values]
    parts = [mean(float(value > radius) for value in seed) for seed in known]
    return shares(parts, [len(seed) for seed in values])


def _median(run, column):
    found = [row[column] for row in rows(run, "radii") if row[column] is not None]
    return statistics.median(sorted(found, key=lambda v: math.inf if math.isnan(v) else v))


@second("FA-T4.5", "paper/robust")
def robust_paper(runs, name):
    run, law = runs["run"], runs["run"].settings.law
    radius = 2 * (1 + law.balance) * math.sqrt(law.d / law.k)
    shown = {
        "radius": radius,
        "median_exact": _median(run, "binary_exact"),
        "proofs": [proved(run, "radii", seed=seed) for seed in sorted(by(rows(run, "radii"), "seed"))],
    }
    found = interval("at most", _beyond(run, "binary_exact", radius, math.inf), SMALL, **shown)
    return at_radius(law, 2 * (1 + law.balance), found)


@second("FA-T4.7", "paper/robust")
def fine_paper(runs, name):
    run = runs["run"]
    radius = math.sqrt(run.settings.law.d) / 10
    value, low, high = _beyond(run, "fine_certified", radius, 0.0)
    medians = {key: _median(run, f"fine_{key}") for key in ("certified", "readout", "own_loss")}
    return interval("at most", (1 - value, 1 - high, 1 - low), SMALL, radius=radius, medians=medians)


def _table(run, columns):
    lines = {column: along(run, "talk", column) for column in columns}
    return [{"at": at} | {column: line[at] for column, line in lines.items()} for at in lines[columns[0]]]


@second("FA-T4.5", "talk/weights")
def talk_binary(runs, name):
    run = runs["run"]
    table = _table(run, ("lambda_min", "lambda_other_top", "own_active", "clean_binary"))
    small = least(row["lambda_min"] for row in table)
    if not small > 0:
        return Expected("FAILS", small, 1 / CONSTANT, {"rows": table}, "at least")
    return all_of(
        {
            "class": fit(run, "talk", "lambda_min", "at least", -BEND),
            "across": exact("at most", top(row["lambda_other_top"] for row in table), SMALL),
            "ratios": fit(run, "talk", "lambda_ratio", "at most", BEND),
        },
        rows=table,
    )


@second("FA-T4.7", "talk/weights")
def talk_fine(runs, name):
    found = fit(runs["run"], "talk", "fine_other_share", "at most", -BEND)
    table = _table(runs["run"], ("fine_lambda_min", "fine_lambda_other", "clean_fine"))
    return Expected(**{**found.__dict__, "evidence": {**found.evidence, "rows": table}})


def _talk_clean(column):
    def read(runs, name):
        run = runs["run"]
        groups = by(ordered(rows(run, "setting", sweep="talk"), "at"), "at")
        points = run.settings.test_points
        return all_of(
            {
                f"d = {d:.4g}": interval("at most", errors([row[column] for row in same], points), SMALL)
                for d, same in groups.items()
            }
        )

    return read


second("FA-T4.5", "talk/clean")(_talk_clean("clean_binary"))
second("FA-T4.7", "talk/clean")(_talk_clean("clean_fine"))


@second("FA-T4.6", "paper|assumption(-large)?", PROOF_PLACES)
def sphere(runs, name):
    run, paper = runs["run"], name[0] == "paper"
    found = rows(run, "table" if paper else "by_seed")
    low = least(row["sphere_found"] for row in found)
    high = top([low, *(row["sphere_bound"] for row in found)])
    told = interval("at most", (low, low, high), SMALL, found=low, proved=high)
    return told if paper else window(run, told, False)
