"""AT's judges of training, read a second time: Theorems 4.3 and 4.4, Figure 3, the inner maximum, depth."""

import math
import statistics

from second_reading import (
    NAN,
    all_of,
    by,
    errors,
    exact,
    hits,
    interval,
    last,
    least,
    lost,
    num,
    ordered,
    outside,
    rows,
    second,
    seeds,
    top,
)

from featscope.certificates.at import fooled
from featscope.core.rules import MUCH, NEARLY, SAME_MINIMUM, SMALL, TRAINED_GAP

COLUMNS = {
    "non-robust-features": "feature_non_robust",
    "clean": "clean_test",
    "robust-bad": "robust_model-free",
    "robust-features": "feature_robust",
    "training-attack": "robust_training-attack",
}


def ends(run, arm, column):
    """The last value of each seed; NaN for one that diverged."""
    found = last(rows(run, "dynamics", arm=arm), column)
    gone = lost(run, "dynamics", arm=arm)
    return [_none(value) if str(seed) in gone else value for seed, value in found.items()]


def _none(value):
    return [NAN] * len(value) if isinstance(value, list) else NAN


@second("AT-T4.3", r"(non-robust-features|clean|robust-bad)( \(.*\))?")
def standard(runs, name):
    return _error(runs["run"], "standard", name[1])


@second("AT-T4.4", r"(robust-features|training-attack)( \(.*\))?")
def adversarial(runs, name):
    return _error(runs["run"], "adversarial", name[1])


def _error(run, arm, item):
    spec, reached = run.settings, ends(run, arm, COLUMNS[item])
    attacked = item in ("robust-bad", "training-attack")
    found = errors(reached, min(spec.evaluation.points, spec.test_size) if attacked else spec.test_size)
    if item == "robust-bad":
        return interval("at least", found, 1 - SMALL, accuracy_by_seed=reached)
    return interval("at most", found, SMALL, accuracy_by_seed=reached)


@second("AT-T4.3", r"perfect-fit( \(.*\))?")
def fits(runs, name):
    return _perfect(ends(runs["run"], "standard", "clean_train"))


@second("AT-T4.4", r"perfect-fit( \(.*\))?")
def fits_robustly(runs, name):
    return _perfect(ends(runs["run"], "adversarial", "robust_train_training-attack"))


def _perfect(reached):
    wrong = [1 - num(value) for value in reached]
    return exact("at most", top(wrong), 0.0, error_by_seed=wrong)


@second("AT-T4.4", r"(perfect-fit-full-ball|feature-span|full-ball)( \(.*\))?")
def bracket(runs, name):
    run, spec, item = runs["run"], runs["run"].settings, name[1]
    train = item.startswith("perfect")
    threat, points = ("full-ball", "train") if train else (item, "test")
    chosen = rows(run, "radii", arm="adversarial", threat=threat, points=points, eps=spec.eps)
    count = min(spec.evaluation.curve_points, spec.train_size if train else spec.test_size)
    attacked, unproven = (errors([row[end] for row in chosen], count) for end in ("upper", "lower"))
    shown = {key: [row[key] for row in chosen] for key in ("upper", "lower", "cross_entropy_alone")}
    if train:
        return interval("at most", (attacked[0], attacked[0], unproven[0]), 0.0, **shown)
    if item == "full-ball" and "radii[arm=adversarial]/delta" in run.tensors:
        w, x, y, delta = (
            run.tensors[f"radii[arm=adversarial]/{key}"].numpy() for key in ("w", "x", "y", "delta")
        )
        count = fooled(
            w.astype(float), x.astype(float), y, delta.astype(float), spec.eps, spec.net.q, spec.net.rho
        )
        shown |= {"fooled": f"{count} of {len(y)}", "certified_error_at_least": hits(count, len(y))[1]}
    return interval("at most", (attacked[0], attacked[1], unproven[2]), SMALL, **shown)


def switches(found):
    """For each seed and class the first step from which on u is above v."""
    told = []
    for group in by(ordered(found, "step"), "seed").values():
        classes = range(len(group[0]["u"]))
        late = [[row["step"] for row in group if not row["u"][i] > row["v"][i]] for i in classes]
        after = [[row["step"] for row in group if not gone or row["step"] > max(gone)] for gone in late]
        told.append([min(steps, default=None) for steps in after])
    return told


def _dominance(run, arm, winner):
    u, v = (ends(run, arm, column) for column in ("u", "v"))
    pairs = [pair for a, b in zip(u, v, strict=True) for pair in zip(a, b, strict=True)]
    times = [_times(*(pair if winner == "u" else pair[::-1])) for pair in pairs]
    switch = None if arm == "standard" else switches(rows(run, "dynamics", arm=arm))
    return interval("at least", (least(times), least(times), top(times)), MUCH, u=u, v=v, phase_switch=switch)


def _times(won, other):
    won, other = num(won), num(other)
    if math.isnan(won) or math.isnan(other):
        return NAN
    return won / other if other > 0 else math.inf if won > 0 else -math.inf


@second("AT-F3", r"(standard|adversarial)( \(.*\))?")
def dominates(runs, name):
    return _dominance(runs["run"], name[1], "v" if name[1] == "standard" else "u")


@second("AT-R2.5", r"switch \((.*)\)")
def dominates_by_arm(runs, name):
    return _dominance(runs["run"], name[1], "u")


@second("AT-F3", r"switch-epoch( \(.*\))?")
def epoch(runs, name):
    run = runs["run"]
    found = switches(rows(run, "dynamics", arm="adversarial"))
    median = _median(step for seed in found for step in seed)
    off = max(median / 150, 150 / median if median > 0 else math.inf)
    if any(math.isnan(num(value)) for seed in ends(run, "adversarial", "u") for value in seed):
        off = NAN
    sizes = {
        size: _median(r["switch"] for r in same)
        for size, same in by(rows(runs["sizes"], "switches"), "batch_size").items()
    }
    return interval(
        "at most",
        (off, off, off),
        NEARLY,
        median_epoch=median,
        phase_switch=found,
        batch_size=run.settings.adversarial.batch_size,
        median_epoch_by_batch_size=sizes,
    )


def _median(steps):
    return statistics.median(math.inf if step is None else step for step in steps)


@second("AT-R2.5", r"gap|gap-in-training|unbeaten")
def never_above(runs, name):
    column, bound = {
        "gap": ("gap", SAME_MINIMUM),
        "gap-in-training": ("training_gap", TRAINED_GAP),
        "unbeaten": ("beaten_by", SAME_MINIMUM),
    }[name[0]]
    measured = [row for row in rows(runs["run"], "dynamics") if row.get(column) is not None]
    arms = {arm: top(row[column] for row in same) for arm, same in by(measured, "arm").items()}
    return exact("at most", top(arms.values()), bound, by_arm=arms)


@second("AT-R2.5", r"converged \((.*)\)")
def converged(runs, name):
    left = ends(runs["run"], name[1], "left")
    return interval("at most", seeds(left), SMALL, by_seed=left)


# --- deeper networks


def wrong_at_the_end(run, net, arm, column):
    points = run.settings.test_size
    gone = lost(run, "dynamics", net=net, arm=arm)
    found = last(rows(run, "dynamics", net=net, arm=arm), column)
    reached = [NAN if str(seed) in gone else num(value) for seed, value in found.items()]
    return [NAN if math.isnan(a) else round((1 - a) * points) / points for a in reached]


def _first(found, column):
    return min((row["step"] + 1 for row in found if row[column] >= 1 - SMALL), default=math.inf)


@second("AT-depth", r"standard \((.*), k = (\d+)\)")
def deep_standard(runs, name):
    run, net = runs["run"], name[1]
    lags = []
    for same in by(rows(run, "dynamics", net=net, arm="standard"), "seed").values():
        robust, other = _first(same, "feature_robust"), _first(same, "feature_non_robust")
        lags.append(NAN if robust == other == math.inf else other / robust)
    swapped, read = (
        wrong_at_the_end(run, net, "standard", c) for c in ("robust_model_free", "feature_non_robust")
    )
    found = all_of(
        {
            "order": interval("below", seeds(lags), 1.0, by_seed=lags),
            "non-robust-features": interval("at most", seeds(read), SMALL, by_seed=read),
            "robust-bad": interval("at least", seeds(swapped), 1 - SMALL, by_seed=swapped),
        }
    )
    return outside(found, _unlearned(run, net))


@second("AT-depth", r"adversarial \((.*), k = (\d+)\)")
def deep_adversarial(runs, name):
    run, net = runs["run"], name[1]
    robust, swapped, clean = (
        wrong_at_the_end(run, net, "adversarial", column)
        for column in ("feature_robust", "robust_model_free", "clean_test")
    )
    parts = {
        "robust-features": interval("at most", seeds(robust), SMALL, by_seed=robust),
        "model-free": interval("at most", seeds(swapped), SMALL, by_seed=swapped),
    }
    return outside(all_of(parts, clean_error=clean), _unlearned(run, net))


def _unlearned(run, net):
    """A third of the way from chance to perfect, in every seed."""
    k = run.settings.law.k
    reached, needed = 1 - top(wrong_at_the_end(run, net, "standard", "clean_test")), (1 + 2 / k) / 3
    if reached >= needed:
        return ()
    return (f"standard training learns the task: test accuracy {reached:.2f} against {needed:.2f}",)
