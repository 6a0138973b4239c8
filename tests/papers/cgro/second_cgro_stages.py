"""CGRO's judges of training on the signal law, read a second time: Theorem 4.1, its lemmas, appendices A and C."""

import math

import numpy as np
from second_reading import (
    NAN,
    all_of,
    by,
    errors,
    exact,
    hits,
    interval,
    least,
    num,
    outside,
    power,
    ratio,
    rows,
    second,
    seeds,
    top,
)

from featscope.core.rules import BEND, CONSTANT, MUCH, SAME, SMALL


def frames(run):
    """The training rows of every seed, in the order of steps."""
    groups = by(rows(run, "training"), "seed")
    return [groups.get(seed, []) for seed in run.settings.seeds]


def log_d(run):
    return math.log(run.settings.law.d)


def until(frame, column="first_memorised"):
    """Up to the step that the last row names; all where it names none."""
    at = frame[-1][column] if frame else -1
    return [row for row in frame if row["step"] <= at] if at >= 0 else frame


def after(frame):
    """From the step at which the last point is memorised."""
    at = frame[-1]["last_memorised"] if frame else -1
    return [row for row in frame if row["step"] >= at] if at >= 0 else []


def worst(run, value, chosen=None):
    """A number of each row, its largest in each seed."""
    return seeds(top(value(row) for row in frame) for frame in (chosen or frames(run)))


# --- lemmas of §4 and appendix C


@second("CG-L4.2", "until memorisation|any t")
def growth(runs, name):
    run = runs["run"]
    chosen = frames(run) if name[0] == "any t" else [until(frame) for frame in frames(run)]
    unit = 3 * (1 - run.settings.tradeoff)
    found = seeds(least(row["growth_constant"] for row in frame) / unit for frame in chosen)
    return interval("at least", found, 1 / CONSTANT)


@second("CG-L4.2", "T0")
def signal_time(runs, name):
    found = [(row["T0"], num(row.get("T0_predicted"))) for row in rows(runs["run"], "starts")]
    ratios = [t / p for t, p in found if t > 0 and 0 < p < math.inf]
    near = [r for r in ratios if 1 / CONSTANT <= r <= CONSTANT]
    close = [1 for t, p in found if t >= 0 and abs(t - p) <= max(1.0, 0.1 * p)]
    return exact(
        "at least",
        len(near) / len(found) if found else NAN,
        1 - SMALL,
        within_a_step_or_a_tenth=len(close),
        starts=len(found),
        worst_ratio=max((max(r, 1 / r) for r in ratios), default=None),
    )


@second("CG-L4.2", "recursion")
def recursion(runs, name):
    found = rows(runs["run"], "verify")
    gap = top(row[key] for row in found for key in ("gap_u", "gap_v"))
    return exact("at most", gap, SAME, steps=runs["run"].settings.verify_steps)


@second("CG-L4.3")
def ceiling(runs, name):
    run, spec = runs["run"], runs["run"].settings
    alpha, eta = spec.law.strength, spec.learning_rate
    gained = eta * alpha**3 * spec.law.residual**3
    chosen = [[row for row in f if row["step"] >= f[-1]["signal_at"]] for f in frames(run)]
    return interval(
        "at most", worst(run, lambda r: r["u_max"] / (1 / alpha + gained * r["slack"]), chosen), log_d(run)
    )


def error_term(run):
    """Pσ²√d/α."""
    law = run.settings.law
    return law.patches * law.noise_scale**2 * math.sqrt(law.d) / law.strength


@second("CG-L4.4", "up to a logarithm|until memorisation")
def noise(runs, name):
    run, unit = runs["run"], error_term(runs["run"])
    chosen = [until(f) for f in frames(run)] if name[0].startswith("until") else frames(run)
    return interval(
        "at most", worst(run, lambda r: num(r["crosstalk_low"]) / unit, chosen), log_d(run), unit=unit
    )


@second("CG-L4.4", "T1", ["T1_order"])
def noise_time(runs, name):
    found = rows(runs["run"], "dimensions")
    fit = power([row["T1_order"] for row in found], [row["median_memorised"] for row in found])
    return all_of(
        {"not slower": interval("at most", fit, 1 + BEND), "not faster": interval("at least", fit, 1 - BEND)}
    )


@second("CG-HC.1")
def induction(runs, name):
    run = runs["run"]
    signal, noise_ = (worst(run, lambda row, key=key: row[key]) for key in ("alpha_u", "v_max"))
    return all_of(
        {"signal": interval("at most", signal, log_d(run)), "noise": interval("at most", noise_, log_d(run))}
    )


@second("CG-LC.8")
def gradient_floor(runs, name):
    run = runs["run"]
    found = seeds(least(ratio(r["gradient"], r["loss"]) for r in after(f)) for f in frames(run))
    return interval("at least", found, 1 / log_d(run))


@second("CG-LC.9")
def loss_rate(runs, name):
    run, eta = runs["run"], runs["run"].settings.learning_rate
    found = seeds(
        top(num(r["loss"]) * eta * (r["step"] - r["last_memorised"] + 1) for r in after(f))
        for f in frames(run)
    )
    return interval("at most", found, log_d(run))


@second("CG-LC.10", "up to a logarithm")
def slack_sum(runs, name):
    run, spec = runs["run"], runs["run"].settings
    unit = spec.tradeoff * spec.learning_rate * spec.start_scale
    return interval("at most", worst(run, lambda row: unit * num(row["slack"])), log_d(run))


@second("CG-LC.10", "growth in N", ["critical_samples"])
def slack_growth(runs, name):
    found = [row for row in rows(runs["run"], "samples") if row["n"] <= row["critical_samples"]]
    fit = power([row["n"] for row in found], [row["slack"] for row in found])
    return interval("at most", fit, BEND, exponent=fit[0], predicted=0.0, allowance=BEND)


def _lemma(lemma):
    def read(runs, name):
        found = rows(runs["run"], "lemmas", lemma=lemma)
        return exact("at most", top(row["share"] for row in found), 1 + SAME, cases=len(found))

    return read


for lemma in ("A.1", "A.2", "A.3"):
    second(f"CG-L{lemma}")(_lemma(lemma))


def terms(run, row):
    """Lemma C.5's two error terms."""
    spec, law = run.settings, run.settings.law
    first = spec.tradeoff * spec.learning_rate * law.strength**3 * law.residual**3 * num(row["slack"])
    return first, error_term(run)


@second("CG-LC.5", "up to a logarithm|until memorisation")
def crosstalk(runs, name):
    run = runs["run"]
    chosen = [until(f) for f in frames(run)] if name[0].startswith("until") else frames(run)
    low, high = (
        worst(run, lambda row, key=key: num(row[key]) / sum(terms(run, row)), chosen)
        for key in ("crosstalk_low", "crosstalk_high")
    )
    return all_of(
        {"taken": interval("at most", low, log_d(run)), "added": interval("at most", high, log_d(run))}
    )


@second("CG-LC.5", "first term dropped")
def first_term(runs, name):
    run = runs["run"]
    return interval("at most", worst(run, lambda row: terms(run, row)[0] / terms(run, row)[1]), log_d(run))


@second("CG-LC.7", ".*", ["T1_order"])
def memorised_for_good(runs, name):
    run = runs["run"]
    order = {row["seed"]: num(row.get("T1_order")) for row in rows(run, "stages")}
    times, floors = [], []
    for seed, frame in zip(run.settings.seeds, frames(run), strict=True):
        at = frame[-1]["last_memorised"] if frame else -1
        times.append(ratio(at, order.get(seed, NAN)) if at >= 0 and order.get(seed) else NAN)
        floors.append(least(row["V_min"] for row in after(frame)))
    return all_of(
        {
            "T1 ÷ its order": interval("at most", seeds(times), CONSTANT),
            "least V_i from then on": interval("at least", seeds(floors), 1 / log_d(run)),
        }
    )


# --- Theorem 4.1


def at_the_end(run, column, points):
    """The error at the end of each seed."""
    return errors([frame[-1][column] if frame else None for frame in frames(run)], points)


def attacked(run, sample, reading, bound, points):
    found = rows(run, "robustness", sample=sample, reading=reading)
    widest = max(run.settings.radii)
    chosen = [row for row in found if reading != "ball" or row["share"] == widest]
    return errors([row[bound] for row in chosen], points)


def three(run, train, test, **evidence):
    clean = at_the_end(run, "clean_test", run.settings.test)
    return all_of(
        {
            "clean test error": interval("at most", clean, SMALL),
            "robust train error": interval("at most", train, SMALL),
            "robust test error": interval("at least", test, 0.5 - SMALL),
        },
        **evidence,
    )


@second("CG-T4.1", "gta|as-defined|gta\\+noise-ball", ["share"])
def robust_errors(runs, name):
    run, spec = runs["run"], runs["run"].settings
    train = at_the_end(run, "gta_train", spec.n)
    if name[0] == "gta":
        return three(run, train, at_the_end(run, "gta_test", spec.test))
    if name[0] == "as-defined":
        return three(run, train, attacked(run, "test", "ball", "attacked", spec.test))
    train = attacked(run, "train", "gta+noise-ball", "certified", spec.n)
    return three(run, train, attacked(run, "test", "gta+noise-ball", "attacked", spec.test))


@second("CG-T4.1", "ball", ["share"])
def over_ball(runs, name):
    run, spec = runs["run"], runs["run"].settings
    w, x, y, delta = (
        run.tensors[f"robustness[seed={spec.seeds[0]}]/{key}"].numpy() for key in ("w", "x", "y", "delta")
    )
    test = attacked(run, "test", "ball", "attacked", spec.test)
    shown = {
        "points": len(y),
        "failures": 0,
        "wrong_clean": 0,
        "largest_norm": None,
        "radius": spec.law.radius,
    }
    if not all(np.isfinite(part).all() for part in (w, x, y, delta)):
        return three(run, (NAN, NAN, NAN), test, certificate=shown)
    for point, label, move in zip(x, y, delta, strict=True):
        size = math.sqrt(float((move**2).sum()))
        right, kept = (label * ((p @ w.T) ** 3).sum() > 0 for p in (point, point + move))
        shown["wrong_clean"] += int(not right)
        shown["failures"] += int(right and not kept and size <= spec.law.radius * (1 + 1e-9))
        shown["largest_norm"] = max(size, shown["largest_norm"] or 0.0)
    lost = shown["failures"] + shown["wrong_clean"]
    return three(run, hits(lost, len(y)), test, certificate=shown)


@second("CG-T4.1", "features( up to a logarithm)?")
def features(runs, name):
    run = runs["run"]
    found = []
    for frame in frames(run):
        sizes = [num(frame[-1][key]) if frame else NAN for key in ("signal", "V_min", "V_max")]
        off = [NAN if math.isnan(s) else max(s, 1 / s) if s > 0 else math.inf for s in sizes]
        found.append(top(off))
    return interval("at most", seeds(found), log_d(run) if name[1] else CONSTANT)


@second("CG-T4.1", "N=poly|N≪N\\*", ["critical_samples"])
def many_samples(runs, name):
    run, spec = runs["run"], runs["run"].settings
    n = max(spec.samples)
    found = rows(run, "samples", n=n)
    critical = float(found[0]["critical_samples"])
    reached = errors([row["gta_test"] for row in found], spec.test)
    told = interval("at least", reached, 0.5 - SMALL, N=n, critical_samples=critical, d=spec.samples_d)
    if name[0] == "N=poly" or n * MUCH <= critical:
        return told
    return outside(told, (f"N ≪ N*: N={n} against N*={critical:.3g}",))


@second("CG-T4.1", "scaling in d")
def growing_d(runs, name):
    found = rows(runs["run"], "dimensions")
    fit = power([row["d"] for row in found], [row["signal"] for row in found])
    return interval("at most", fit, BEND, exponent=fit[0], predicted=0.0, allowance=BEND)
