"""FA's judges of labels in groups on real images, read a second time."""

import math
import statistics

from scipy import stats as sps
from second_reading import NAN, interval, least, num, ordered, outside, rows, second, seeds, student

from featscope.core.rules import AS_GOOD, BEND, ONE_DIRECTION
from featscope.images.catalogue import ENCODERS


def _unmet(run):
    told, lowest = [], least(row["clean"] for row in rows(run, "net"))
    if not lowest >= 2 / 3:
        told.append(f"2-class accuracy ≥ 0.667: {lowest:.3f}")
    side = getattr(run.settings, "side", None)
    if side is not None and side != ENCODERS[run.settings.encoder].side:
        known = ENCODERS[run.settings.encoder].side
        told.append(f"images have side {side} where the encoder was trained on {known}")
    return tuple(told)


def _slope(found):
    law, radius = ([num(row[key]) for row in found] for key in ("law", "radius"))
    if len(law) < 2 or not all(r > 0 for r in radius):
        return NAN
    return float(sps.linregress([math.log(v) for v in law], [math.log(v) for v in radius]).slope)


def _groups(run):
    told = {}
    for row in ordered(rows(run, "net"), "count", "seed"):
        group = told.setdefault(f"G = {row['count']}", {"law": [], "radius": [], "clean": []})
        for key, values in group.items():
            values.append(row[key])
    return told


@second("FA-granularity-images", r"(grows|law) \(.*\)")
def followed(runs, name):
    run = runs["run"]
    found = [_slope(rows(run, "net", seed=seed)) for seed in run.settings.seeds]
    told = {"slopes": found, "groups": _groups(run)}
    judged = (
        interval("above", student(found), 0.0, **told)
        if name[1] == "grows"
        else interval("at most", seeds([abs(value - 1) for value in found]), BEND, **told)
    )
    return outside(judged, _unmet(run))


@second("FA-average-images", r"(radius|cosine) \(.*\)")
def along(runs, name):
    run = runs["run"]
    key, direction, bound = {
        "radius": ("ratio", "at most", AS_GOOD),
        "cosine": ("cosine", "at least", ONE_DIRECTION),
    }[name[1]]
    found = []
    for seed in run.settings.seeds:
        values = [num(row[key]) for row in rows(run, "average", seed=seed)]
        known = values and not any(map(math.isnan, values))
        found.append(statistics.median(values) if known else NAN)
    return outside(interval(direction, seeds(found), bound), _unmet(run))
