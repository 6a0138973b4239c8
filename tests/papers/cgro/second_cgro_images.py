"""CGRO's judges of real images, read a second time: Figures 1 to 3 and appendix E."""

import math
from statistics import fmean

from scipy import stats as sps
from second_reading import (
    NAN,
    all_of,
    empty,
    interval,
    num,
    ordered,
    outside,
    rows,
    second,
    student,
)

from featscope.core.rules import CONSTANT, LINEAR_GROWTH, MUCH, SMALL


def fitted(run, found, robust_train):
    """In scope from three times chance on, in every seed."""
    level = 3 / run.settings.net.classes
    if all(reached >= level for reached in robust_train):
        return found
    text = f"robust training accuracy {min(robust_train):.3f}, needed {level:.3f}"
    own = found.unmet if isinstance(found.unmet, tuple) else ()
    return outside(found, (*own, text))


# --- Figure 1


@second("CG-F1", r"(?:cifar10-)?(gap|falls)(?: \(\d+ images\))?|clean-gap-smaller|clean-gap-much-smaller")
def compared(runs, name):
    found = rows(runs["run"], "compared")
    gap, clean, fallen = (
        [num(row[key]) for row in found] for key in ("gap_last", "clean_gap_last", "lost_by_training_on")
    )
    told = {
        "gap": lambda: interval("at least", student(gap), SMALL),
        "falls": lambda: interval("above", student(fallen), 0.0),
        "clean-gap-smaller": lambda: interval(
            "above", student(a - b for a, b in zip(gap, clean, strict=True)), 0.0
        ),
        "clean-gap-much-smaller": lambda: interval(
            "at least", student(a - MUCH * b for a, b in zip(gap, clean, strict=True)), 0.0
        ),
    }[name[1] or name[0]]()
    return fitted(runs["run"], told, [row["robust_train_last"] for row in found])


@second("CG-F1", "printed")
def printed_figure(runs, name):
    run, found = runs["run"], rows(runs["run"], "compared")
    clean, robust = (student(row[key] for row in found) for key in ("clean_test_last", "robust_test_last"))
    told = all_of(
        {
            "clean test accuracy": interval("above", clean, 0.8),
            "robust test accuracy, not more": interval("at most", robust, 0.5 + SMALL),
            "robust test accuracy, not less": interval("at least", robust, 0.5 - SMALL),
        }
    )
    told = fitted(run, told, [row["robust_train_last"] for row in found])
    if run.settings.dataset == "cifar10":
        return told
    own = told.unmet if isinstance(told.unmet, tuple) else ()
    return outside(told, (*own, f"the figure is of CIFAR-10, the run of {run.settings.dataset}"))


# --- gap and flatness over networks


@second("CG-F3", "mnist-networks")
def over_networks(runs, name):
    run = runs["run"]
    found, kinds = rows(run, "network"), {"pearson": [], "spearman": []}
    for seed in run.settings.seeds:
        own = [row for row in found if row["seed"] == seed]
        gaps = [num(row["robust_loss_test"]) - num(row["robust_loss_train"]) for row in own]
        flat = [num(row["gradient_test"]) for row in own]
        vary = len(own) > 2 and len(set(gaps)) > 1 and len(set(flat)) > 1
        kinds["pearson"].append(sps.pearsonr(gaps, flat)[0] if vary else NAN)
        kinds["spearman"].append(sps.spearmanr(gaps, flat)[0] if vary else NAN)

    def mean(values):
        scale = student(math.atanh(min(max(v, -1 + 1e-9), 1 - 1e-9)) if v == v else NAN for v in values)
        return tuple(math.tanh(end) for end in scale)

    parts = {kind: interval("above", mean(v), 0.0, seeds=v) for kind, v in kinds.items()}
    networks = len(run.settings.sizes) * len(run.settings.lengths)
    return fitted(run, all_of(parts, networks=networks), [row["robust_train"] for row in found])


# --- landscapes


def eps(run):
    return run.settings.training.attack.eps


def epochs(run):
    """The epochs of each seed at full radius, after the first."""
    first = max(1, run.settings.training.attack.ramp.epochs)
    found = ordered(rows(run, "training"), "step")
    return [[r for r in found if r["seed"] == seed and r["step"] >= first] for seed in run.settings.seeds]


def inside(run, row, name):
    """The gradient norm within the training radius."""
    place = next(i for i, radius in enumerate(run.settings.watched) if math.isclose(radius, eps(run)))
    return num(row[f"gradient_{name}"][place])


def over(a, b):
    return num(a) / num(b) if num(b) > 0 else NAN


def at_radius(run, seed, name, radius):
    """After the last epoch, the row of a set at a radius."""
    found = rows(run, "radii", seed=seed, set=name)
    return next(row for row in found if math.isclose(row["radius"], radius))


def grown(run, name):
    return [over(inside(run, frame[-1], name), inside(run, frame[0], name)) for frame in epochs(run)]


def faster(run):
    return student(over(a, b) for a, b in zip(grown(run, "test"), grown(run, "train"), strict=True))


def doubled(run, column):
    """At 2ε over at ε, on training images."""
    ends = [[at_radius(run, s, "train", k * eps(run))[column] for k in (2, 1)] for s in run.settings.seeds]
    return student(over(*pair) for pair in ends)


def told(run, found, trained=True):
    """With the accuracies at the end beside."""
    last = [frame[-1] for frame in epochs(run)]
    shown = {key: fmean(row[key] for row in last) for key in ("clean_test", "robust_train", "robust_test")}
    found = type(found)(**{**found.__dict__, "evidence": {**found.evidence, "accuracy": shown}})
    return fitted(run, found, [row["robust_train"] for row in last]) if trained else found


@second("CG-F2", "(mnist|cifar10)-(much-sharper|sharper|train-descends|test-ascends)")
def shape(runs, name):
    run = runs["run"]
    read = {
        "much-sharper": lambda: all_of(
            {key: interval("at least", doubled(run, key), MUCH) for key in ("change", "gradient")}
        ),
        "sharper": lambda: interval("above", doubled(run, "change"), LINEAR_GROWTH),
        "train-descends": lambda: interval("below", student(grown(run, "train")), 1.0),
        "test-ascends": lambda: interval("above", student(grown(run, "test")), 1.0),
    }
    return told(run, read[name[2]]())


@second("CG-F3", "(mnist|cifar10)-(faster|much-faster)")
def growth(runs, name):
    run = runs["run"]
    if name[2] == "much-faster":
        return told(run, interval("at least", faster(run), MUCH))
    parts = {
        "grows": interval("above", student(grown(run, "test")), 1.0),
        "faster": interval("above", faster(run), 1.0),
    }
    return told(run, all_of(parts, local=grown(run, "train"), everywhere=grown(run, "test")))


def gap(row):
    return num(row["robust_loss_test"]) - num(row["robust_loss_train"])


def _correlation(kind, x, y):
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return NAN
    return float({"pearson": sps.pearsonr, "spearman": sps.spearmanr}[kind](x, y).statistic)


@second("CG-F3", "(mnist|cifar10)-gap-follows")
def gap_follows(runs, name):
    run, parts = runs["run"], {}
    for kind in ("pearson", "spearman"):
        found = [
            _correlation(kind, [gap(r) for r in frame], [inside(run, r, "test") for r in frame])
            for frame in epochs(run)
        ]
        scale = student(math.atanh(min(max(r, -1 + 1e-9), 1 - 1e-9)) if r == r else NAN for r in found)
        parts[kind] = interval("above", tuple(map(math.tanh, scale)), 0.0, seeds=found)
    return told(run, all_of(parts, epochs=len(epochs(run)[0])))


@second("CG-E.1", "(mnist|cifar10)-printed")
def printed_rate(runs, name):
    run, spec = runs["run"], runs["run"].settings
    n = spec.train - max(1, round(spec.training.held_out * spec.train))
    pixels = spec.net.channels * spec.net.side**2
    rate = n ** (-1 / (pixels + 2))
    shares = [over(gap(frame[-1]), inside(run, frame[-1], "test") * rate) for frame in epochs(run)]
    shown = {
        "N": n,
        "D": pixels,
        "rate": rate,
        "log10_N_that_halves_it": math.log10(2) * (pixels + 2),
        "log10_of_term_II_at_this_radius": -math.log10(n * eps(run) ** pixels) / 2
        if eps(run) ** pixels > 0
        else -(math.log10(n) + pixels * math.log10(eps(run))) / 2,
    }
    found = interval("at most", student(shares), CONSTANT, **shown)
    if rate > 0.5:
        found = empty(found, f"N^(−1/(D+2)) = {rate:.4f} with N = {n}, D = {pixels}")
    return told(run, found, trained=False)


@second("CG-E.2", "(mnist|cifar10)-(ball|images)")
def lower_constant(runs, name):
    run, spec = runs["run"], runs["run"].settings
    column = {"ball": "change_free", "images": "change"}[name[2]]

    def constants(radius):
        found = [at_radius(run, seed, "test", radius) for seed in spec.seeds]
        return [over(row[column], radius * row["slope"]) for row in found]

    shown = {f"{radius:.4g}": sum(constants(radius)) / len(spec.seeds) for radius in spec.radii}
    found = interval("at least", student(constants(eps(run))), 1 / CONSTANT, constant_over_radii=shown)
    return told(run, found, trained=False)
