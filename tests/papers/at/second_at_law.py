"""AT's judges of the law and of the two minima, of noise, and of the recursions, read a second time."""

import itertools
import math
import statistics

from second_reading import (
    NAN,
    Expected,
    by,
    empty,
    errors,
    exact,
    hits,
    interval,
    last,
    least,
    lost,
    mean,
    num,
    ordered,
    outside,
    power,
    ratio,
    rows,
    second,
    top,
    worst,
)

from featscope.certificates.at import fooled, matching_bound
from featscope.core.rules import BEND, CONSTANT, SAME, SMALL, STILL

# --- the law at Figure 3's values


@second("AT-A2.3", "strong|dense|separation")
def condition(runs, name):
    wanted = {"strong": "A2.3 strong", "dense": "A2.3 dense", "separation": "2ε-separation"}[name[0]]
    found = rows(runs["run"], "conditions", name=wanted)[0]
    return exact("at least", found["value"], found["bound"], text=found["text"])


@second("AT-AB.3")
def choices(runs, name):
    found = rows(runs["run"], "conditions")
    keys = ("name", "text", "value", "bound", "met")
    missed = float(len([row for row in found if not row["met"]]))
    return exact("at most", missed, 0.0, conditions=[{key: row[key] for key in keys} for row in found])


@second("AT-A2.3", "any-classifier")
def any_classifier(runs, name):
    run = runs["run"]
    x, y, left, right = (run.tensors[f"matching/{key}"].numpy() for key in ("x", "y", "left", "right"))
    shown = {
        "pairs": len(left),
        "points": len(y),
        "share_of_intersecting_pairs": rows(run, "matching")[0]["intersecting_pairs"],
    }
    bound = matching_bound(x.astype(float), y, left, right, run.settings.eps)
    if bound is None:
        return Expected("INCONCLUSIVE", None, 1 - SMALL, shown)
    return exact("at least", 1 - len(left) / (2 * len(y)), 1 - SMALL, **shown)


# --- the two minima


def curve(found, along, column):
    """Means over seeds; one that is not there is not in a mean."""
    groups = sorted(by(found, along).items())
    means = [mean(row[column] for row in same if row[column] is not None) for _, same in groups]
    return {along: [at for at, _ in groups], column: means}


def _largest_gamma(found):
    return [row for row in found if row["gamma"] == max(r["gamma"] for r in found)]


def _wrong(found, column):
    return errors([row[column] for row in found], [row["points"] for row in found])


def _risk(runs, feature):
    found = rows(runs["run"], "gamma", feature=feature)
    reached = [row["risk"] for row in _largest_gamma(found)]
    return interval("at most", worst(reached), SMALL, curve=curve(found, "gamma", "risk"))


@second("AT-P3.1", "risk")
def standard_risk(runs, name):
    return _risk(runs, "non-robust")


@second("AT-P3.2", "risk")
def robust_risk(runs, name):
    return _risk(runs, "robust")


@second("AT-P3.1", "model-free|full-ball")
def error_to_one(runs, name):
    spec, column = runs["run"].settings, {"model-free": "explicit"}.get(name[0], name[0])
    if column == "explicit" and spec.eps < spec.law.beta_supremum:
        return outside(Expected("INCONCLUSIVE", None, 1 - SMALL), 1)
    found = rows(runs["run"], "gamma", feature="non-robust")
    reached = _wrong(_largest_gamma(found), column)
    return interval("at least", reached, 1 - SMALL, curve=curve(found, "gamma", column))


@second("AT-P3.2", "own-logit")
def own_logit(runs, name):
    found = rows(runs["run"], "gamma", feature="robust")
    reached = _wrong(_largest_gamma(found), "own-logit")
    return interval("at most", reached, SMALL, curve=curve(found, "gamma", "own-logit"))


@second("AT-P3.2", "own-logit-small-noise")
def own_logit_noise(runs, name):
    found = rows(runs["run"], "noise", feature="robust")
    quiet = min(row["sigma_n"] for row in found)
    reached = _wrong([row for row in found if row["sigma_n"] == quiet], "own-logit")
    shown = {"curve": curve(found, "sigma_n", "own-logit"), "smallest_noise": quiet}
    return interval("at most", reached, SMALL, **shown)


@second("AT-P3.2", "full-ball")
def full_ball(runs, name):
    run, spec = runs["run"], runs["run"].settings
    w, x, y, delta = (run.tensors[f"gamma/{key}"].numpy() for key in ("w", "x", "y", "delta"))
    count = fooled(w, x, y, delta, spec.eps, spec.net.q, spec.net.rho)
    share, low, _ = hits(count, len(y))
    found = rows(run, "gamma", feature="robust")
    value, exact_low, high = _wrong(_largest_gamma(found), "full-ball")
    if math.isnan(value):
        value, exact_low, high = share, low, 1.0
    low = max(low, exact_low)
    means = curve(found, "gamma", "full-ball")["full-ball"]
    shown = {"fooled": f"{count} of {len(y)}", "exact_accuracy_largest_over_gamma": max(means)}
    return interval("at most", (value, low, max(high, low)), SMALL, **shown)


# --- noise


def _recorded(run, arm, column):
    """The rows of each seed at which a column is recorded, by step."""
    found = [row for row in rows(run, "dynamics", arm=arm) if row.get(column) is not None]
    return list(by(ordered(found, "step"), "seed").values())


def _log_over_root(run):
    d = run.settings.law.d
    return math.log(d) / math.sqrt(d)


@second("AT-LE.2 AT-LE.9", r"(more-dimensions|(patch|coordinate)-clip)( \(initial weights\))?")
def in_span(runs, name):
    column = "outside_initial" if name[3] else "outside_span"
    found = rows(runs["run"], "spans", training=name[2] or "standard")
    values = [row[column] for row in found]
    vectors, room = top(row["vectors"] for row in found), least(row["room"] for row in found)
    told = exact("at most", top(values), SAME, by_seed=values)
    if vectors >= room:
        return empty(
            told, f"{vectors:g} features and noise vectors span R^{room:g}; opens at d > {vectors:g}"
        )
    return exact("at most", top(values), SAME, by_seed=values, vectors=vectors, d=room)


def _noise(run, arm):
    by_seed = [[row["noise_max"] for row in same] for same in _recorded(run, arm, "noise_max")]
    most, first = [top(seed) for seed in by_seed], top(seed[0] for seed in by_seed)
    shown = {"at_initialisation": first, "growth": ratio(top(most), first)}
    return interval("at most", worst(most), _log_over_root(run), **shown)


@second("AT-LE.3", "figure-3")
def standard_noise(runs, name):
    return _noise(runs["run"], "standard")


@second("AT-LE.10")
def adversarial_noise(runs, name):
    return _noise(runs["run"], "adversarial")


@second("AT-LE.3", "N-grows-with-d")
def noise_in_d(runs, name):
    medians = {}
    for d, same in sorted(by(rows(runs["run"], "growing"), "d").items()):
        most = [top(row["noise_max"] for row in seed) for seed in by(same, "seed").values()]
        medians[d] = NAN if any(map(math.isnan, most)) else statistics.median(most)
    fit = power(list(medians), list(medians.values()))
    shown = {"exponent": fit[0], "predicted": -0.5, "allowance": BEND, "median": list(medians.values())}
    return interval("at most", fit, -0.5 + BEND, **shown)


@second("AT-LE.4")
def noise_update(runs, name):
    run = runs["run"]
    most = [
        top(r["noise_update_rest"] for r in same) for same in _recorded(run, "standard", "noise_update_rest")
    ]
    bound = 1 / math.sqrt(run.settings.law.d)
    return interval("at most", worst(most), bound, times_the_bound=top(most) / bound)


def _reached(same, log_d):
    """NaN has reached everything, what is not recorded nothing."""
    found = [row for row in same if row["F_max"] is not None]
    return [row for row in found if not row["F_max"] < log_d]


@second("AT-LE.5")
def balanced(runs, name):
    run = runs["run"]
    log_d, small = math.log(run.settings.law.d), _log_over_root(run)
    late = [_reached(same, log_d) for same in _recorded(run, "standard", "F_max")]
    meant = [
        [row for row in same if not any(top(_flat(row[key])) > small for key in ("u", "C", "D"))]
        for same in late
    ]
    ratios = [least(row["F_ratio"] for row in same) for same in meant if same]
    if not ratios:
        return Expected("VACUOUS", None, None)
    return interval("at least", (least(ratios), least(ratios), top(ratios)), 1 / CONSTANT)


def _flat(value):
    return [inner for part in value for inner in _flat(part)] if isinstance(value, list) else [num(value)]


@second("AT-LE.6")
def total_residual(runs, name):
    run, spec = runs["run"], runs["run"].settings
    training = spec.standard
    eta = training.learning_rate * training.steps_an_epoch(spec.train_size)
    totals = []
    for same in _recorded(run, "standard", "residual"):
        reached = [row["step"] for row in _reached(same, math.log(spec.law.d))]
        late = [row for row in same if reached and row["step"] >= min(reached)]
        areas = [
            (b["step"] - a["step"]) * (a["residual"] + b["residual"]) / 2 for a, b in itertools.pairwise(late)
        ]
        totals += [eta * sum(areas)] if late else []
    if not totals:
        return Expected("VACUOUS", None, None)
    return interval("at most", worst(totals), math.log(spec.law.d))


def _ends(run, column):
    gone = lost(run, "dynamics", arm="standard")
    found = last(rows(run, "dynamics", arm="standard"), column)
    return [NAN if str(seed) in gone else _flat(value) for seed, value in found.items()]


@second("AT-LE.7", "losers")
def losers(runs, name):
    columns = [[NAN if v is NAN else top(v) for v in _ends(runs["run"], key)] for key in ("u", "C", "D")]
    most = [top(seed) for seed in zip(*columns, strict=True)]
    return interval("at most", worst(most), _log_over_root(runs["run"]))


@second("AT-LE.7", "winner")
def winner(runs, name):
    log_d = math.log(runs["run"].settings.law.d)
    ratios = [NAN if v is NAN else least(v) / log_d for v in _ends(runs["run"], "v")]
    return interval("at least", (least(ratios), least(ratios), top(ratios)), 1 / CONSTANT)


# --- recursions

GAPS = {
    "AT-L5.1": "gap_diagonal",
    "AT-LD.4": "gap_off",
    "AT-LD.2": "outside",
    "AT-LD.16": "outside",
    "AT-LD.17": "gap_x",
    "AT-LD.18": "gap",
}
ARMS = {
    "descent": "standard",
    "lemma-clip": "adversarial",
    "patch-clip": "patch",
    "coordinate-clip": "coordinate",
}


def _equal(column):
    def read(runs, name):
        found = rows(runs["run"], "dynamics", arm=ARMS[name[0]])
        apart = [row["step"] for row in found if num(row[column]) > SAME]
        return exact(
            "at most",
            top(row[column] for row in found),
            SAME,
            steps=max(row["step"] for row in found),
            runs=len({row["seed"] for row in found}),
            first_recorded_step_apart=min(apart, default=None),
        )

    return read


for claim, gap in GAPS.items():
    second(claim)(_equal(gap))


def _grown(seed, column):
    """The largest growth of a pair that starts above 0."""
    paths = list(zip(*(_flat(row[column]) for row in seed), strict=True))
    if any(math.isnan(value) for path in paths for value in path):
        return NAN
    return max((max(path) / path[0] for path in paths if path[0] > 0), default=0.0)


def _crossed(run, arm):
    found = list(by(ordered(rows(run, "dynamics", arm=arm), "step"), "seed").values())
    of_c, of_d = ([_grown(seed, key) for seed in found] for key in ("C", "D"))
    both = [top(pair) or NAN for pair in zip(of_c, of_d, strict=True)]
    return interval("at most", worst(both), CONSTANT, growth_of_C=of_c, growth_of_D=of_d)


@second("AT-LD.7 AT-LD.21", "noiseless|coefficient-clip")
def crossed(runs, name):
    return _crossed(runs["run"], "standard" if name[0] == "noiseless" else "adversarial")


@second("AT-LD.7 AT-LD.21", "with-noise|patch-clip")
def crossed_in_noise(runs, name):
    law = runs["run"].settings.law
    noise = law.sigma_n * math.sqrt(law.d)
    found = _crossed(runs["run"], "standard" if name[0] == "with-noise" else "adversarial")
    return outside(found, (f"no noise: σ_n√d is {noise:.3g}",) if noise > 0 else ())


@second("AT-L5.2")
def approximation(runs, name):
    arm = {"as-printed": "adversarial", "features-only": "features-only"}[name[0]]
    stage = [row for row in rows(runs["run"], "dynamics", arm=arm) if row["polynomial"] == 1.0]
    moved = [
        (kind, row["step"], num(guess), num(true))
        for row in stage
        for kind in "AB"
        for guess, true in zip(row[f"approximation_{kind}"], row[f"exact_{kind}"], strict=True)
        if not max(abs(num(guess)), abs(num(true))) <= STILL
        or math.isnan(num(guess))
        or math.isnan(num(true))
    ]
    if not moved:
        return Expected("VACUOUS", None, None)
    near = [m for m in moved if 1 / CONSTANT <= ratio(m[2], m[3]) <= CONSTANT]
    beyond = [m[1] for m in moved if m not in near]
    medians = {
        kind: statistics.median(told)
        if (told := _finite(ratio(m[2], m[3]) for m in moved if m[0] == kind))
        else None
        for kind in "AB"
    }
    return exact(
        "at least",
        len(near) / len(moved),
        1 - SMALL,
        median_ratio=medians,
        steps=len(moved),
        inside=len(near),
        recorded_steps_outside=[min(beyond), max(beyond)] if beyond else None,
    )


def _finite(values):
    return [value for value in values if math.isfinite(value)]
