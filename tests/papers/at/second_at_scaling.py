"""AT's judges of growth with d, read a second time."""

import math
import statistics
from dataclasses import replace

from second_reading import (
    NAN,
    Expected,
    by,
    exact,
    hits,
    interval,
    mean,
    num,
    ordered,
    power,
    rows,
    second,
    top,
)

from featscope.core.rules import BEND, CONSTANT, SAME, SMALL, USUAL

CLIPS = "(features-only|two-sided|as-printed)"


def happened(run, arm, event):
    """The rows of an event that happened, and the share in which it did."""
    found = rows(run, "events", arm=arm, event=event)
    good = [row for row in found if row["happened"]]
    return good, len(good) / max(len(found), 1)


def medians(pairs):
    """d → the median of its values, d in order; NaN where one is NaN."""
    groups = {}
    for d, value in pairs:
        groups.setdefault(float(d), []).append(num(value))
    return {
        d: NAN if any(map(math.isnan, values)) else statistics.median(values)
        for d, values in sorted(groups.items())
    }


def at_horizon(run, arm):
    """The last row of each run, and the share that reached d^horizon_power."""
    groups = {}
    for row in ordered(rows(run, "curves", arm=arm), "step"):
        groups[row["d"], row["seed"]] = row
    horizon = run.settings.horizon_power
    arrived = [r for r in groups.values() if r["time"] >= r["d"] ** horizon * (1 - SAME)]
    return list(groups.values()), len(arrived) / len(groups)


def at_most(line, bound, **shown):
    fit = power(list(line), list(line.values()))
    return interval("at most", fit, bound + BEND, exponent=fit[0], predicted=bound, allowance=BEND, **shown)


def _loser(run, arm, event, column, predicted):
    found, share = happened(run, arm, event)
    line = medians((row["d"], row[column]) for row in found)
    if share < USUAL or len(line) < 3:
        return _missing(run, arm, share)
    shown = {"d": list(line), "median": list(line.values()), "share": share}
    if predicted is None:
        c0 = run.settings.c0
        return at_most(line, -c0, **shown, own_prediction=-c0 / run.settings.net.q)
    return at_most(line, predicted, **shown)


def _missing(run, arm, share):
    ends, arrived = at_horizon(run, arm)
    most = medians((row["d"], value) for row in ends for value in row["u"])
    shown = {
        "share": share,
        "largest_A_at_the_end": {f"{d:.0e}": value for d, value in most.items()},
        "share_that_reached_the_horizon": arrived,
    }
    verdict = "INCONCLUSIVE" if arrived < 1 - SMALL else "FAILS"
    return Expected(verdict, share, USUAL, shown, "at least")


#: claim → event, column and predicted exponent (None: −c0)
LOSERS = {
    "AT-LD.9": (0, "A", -0.5),
    "AT-LD.10": (1, "A", -0.5),
    "AT-LD.23": (0, "A", -0.5),
    "AT-LD.24": (1, "B", None),
    "AT-LD.25": (2, "B", None),
}


def _behind(event, column, predicted):
    def read(runs, name):
        arm = "standard" if name[0] == "median" else name[0]
        return _loser(runs["run"], arm, event, column, predicted)

    return read


for claim, wanted in LOSERS.items():
    second(claim, f"median|{CLIPS}")(_behind(*wanted))


@second("AT-LD.9", "high-probability")
def high_probability(runs, name):
    groups = {}
    for row in rows(runs["run"], "events", arm="standard", event=0):
        fine = row["happened"] and num(row["A"]) <= math.log(row["d"]) ** 2 / math.sqrt(row["d"])
        groups.setdefault((row["d"], row["seed"]), []).append(fine)
    good = [run for run, fine in groups.items() if all(fine)]
    return interval("at least", hits(len(good), len(groups)), 1 - SMALL)


def _late(run, arm, event, column, bound):
    _, share = happened(run, arm, event)
    if share < USUAL:
        return Expected("VACUOUS", share, USUAL, {}, "at least")
    ends, arrived = at_horizon(run, arm)
    line = medians(
        (row["d"], top(row[column]) / (math.log(row["d"]) if column == "F" else 1)) for row in ends
    )
    shown = {"d": list(line), "median": list(line.values()), "share_that_reached_the_horizon": arrived}
    found = at_most(line, bound, **shown)
    if arrived >= 1 - SMALL:
        return found
    return replace(found, verdict="INCONCLUSIVE", evidence={**found.evidence, "would_be": found.verdict})


@second("AT-LD.11")
def output_stays(runs, name):
    of_loser = "max A" in name[0]
    return _late(runs["run"], "standard", 1, *(("u", -0.5) if of_loser else ("F", 0.0)))


@second("AT-LD.26", rf"{CLIPS}( \(max B\))?")
def stays_attacked(runs, name):
    run = runs["run"]
    return _late(run, name[1], 2, "v", -run.settings.c0) if name[2] else _late(run, name[1], 2, "F", 0.0)


# --- what is there at the start


@second("AT-LD.3", "in-d")
def initial_in_d(runs, name):
    found = rows(runs["run"], "initial")
    line = {d: mean(row["largest"] for row in same) for d, same in sorted(by(found, "d").items())}
    return _near(line, -0.5, found)


@second("AT-LD.3", "in-m")
def initial_in_m(runs, name):
    found = rows(runs["run"], "initial")
    line = {
        math.log(m): mean(num(row["largest"]) * math.sqrt(row["d"]) for row in same)
        for m, same in sorted(by(found, "m").items())
    }
    return _near(line, 1.0, found)


def _near(line, predicted, found):
    value, low, high = power(list(line), list(line.values()))
    far = [abs(low - predicted), abs(high - predicted)]
    near = 0.0 if low <= predicted <= high else min(far)
    return interval(
        "at most",
        (abs(value - predicted), near, max(far)),
        BEND,
        predicted=predicted,
        exponent=value,
        exponent_interval=[low, high],
        drawn_against_exact=mean(num(row["largest"]) / num(row["exact"]) for row in found),
    )


@second("AT-LB.2")
def tensor_power(runs, name):
    found = rows(runs["run"], "power")
    shares = [num(row["growth"]) / math.log(1 / row["y0"]) for row in found]
    place = next((i for i, share in enumerate(shares) if math.isnan(share)), None)
    place = shares.index(max(shares)) if place is None else place
    cell = {key: value for key, value in found[place].items() if value is not None}
    return exact(
        "at most",
        top(shares),
        CONSTANT,
        cells=len(found),
        worst_cell=cell,
        largest_growth=top(row["growth"] for row in found),
    )
