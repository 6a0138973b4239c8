"""Claims about real images: AT-T1 (Table 1) and AT-F4 (Figures 4 and 5).

The paper's three statements — standard training learns non-robust features rather than robust ones; adversarial training suppresses the non-robust and strengthens the
robust ones — are differences of feature learning accuracies over paired seeds. The rules below were fixed before any feature accuracy of the `cpu` profile was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from featscope.claims.claim import Claim, Finding, Judge, Need, Reading, Runs, plain
from featscope.claims.judging import at_least, at_most, largest, out_of_scope, smallest
from featscope.core.rules import SMALL
from featscope.core.stats import Interval, mean_interval
from featscope.experiments.run import Run
from featscope.papers.at.image_features import METHODS, SETS, differences

#: networks are comparable to the paper's if they reach this share of its clean accuracy, and under adversarial training of its robust accuracy
REACHED = 0.9
#: a set holds a network's features if the network that it was made from reads this share of it …
OWN = 0.9
#: … and the mean relative feature error is at most this
INVERTED = 0.2

FEATURES = Need("image-features")
#: other inversions of the same networks, whose robust accuracy is counted in the run above; fewer images, because they only ask whether the inversion decides
_FEWER = {"images": 50, "attacked": 0}
STARTS = {start: Need("image-features", {**_FEWER, "inversion.start": start}) for start in ("grey", "black", "image")}
#: from noise in a tenth of the step, which ends at a larger feature error
SMALL_STEPS = Need("image-features", {**_FEWER, "inversion.step_size": 0.05})

CONDITIONS = (
    f"every network reaches {REACHED:g} of the printed clean accuracy, the adversarially trained ones {REACHED:g} of the printed robust accuracy",
    f"every reference reads {OWN:g} of its own set, which has a mean relative feature error of at most {INVERTED:g}",
)
STATEMENTS = {
    "standard-non-robust": ("standard_reads_non_robust_more", "a fresh standard network reads D̂_NR better than D̂_R"),
    "suppressed": ("adversarial_suppresses_non_robust", "a fresh adversarially trained network reads D̂_NR worse than a fresh standard one"),
    "strengthened": ("adversarial_strengthens_robust", "a fresh adversarially trained network reads D̂_R better than a fresh standard one"),
}

Values = dict[str, list[float]]


def _seeds(run: Run) -> list[int]:
    return [int(seed) for seed in run.spec["spec"]["seeds"]]


def _curve(run: Run, method: str, seed: int) -> dict[str, list[float]]:
    rows = run.part(f"curve-{method}-{seed}").sort("step")
    return {key: [float(v) for v in rows[key].to_list()] for key in ("step", *(f"feature_{name}" for name in SETS))}


def _unmet(run: Run, tested: Run) -> list[str]:
    """The conditions for saying anything that this run, and the networks tested in that one, do not meet, with numbers."""
    printed = run.summary["printed"]
    if printed is None:
        return ["the paper has no table of this data"]
    missed = []
    for seed in _seeds(run):
        for method in METHODS:
            row = tested.part(f"tested-{method}-{seed}").to_dicts()[0]
            for key in ("clean_test", "robust_test")[: 1 if method == "standard" else 2]:
                if not row[key] >= REACHED * printed[method][key]:
                    missed.append(f"{method} network of seed {seed}: {key} {row[key]:.3f}, below {REACHED:g}·{printed[method][key]:g}")
        for row in run.part(f"read-{seed}").to_dicts():
            if row["reader"] == f"reference-{SETS[row['set']]}":
                if not row["accuracy"] >= OWN:
                    missed.append(f"reference of seed {seed} reads {row['accuracy']:.3f} of its set {row['set']}, below {OWN:g}")
                if not row["error_mean"] <= INVERTED:
                    missed.append(f"set {row['set']} of seed {seed}: feature error {row['error_mean']:.3f}, above {INVERTED:g}")
    return missed


def _judged(runs: Runs, finding: Finding) -> Finding:
    missed = _unmet(runs["run"], runs["tested"])
    return out_of_scope(missed, finding) if missed else finding


def _summed(run: Run, over: Callable[[Sequence[float], Sequence[float]], float]) -> dict[str, Values]:
    """For each training and set one number a seed: ``over`` the epochs and the curve."""
    cells: dict[str, Values] = {method: {} for method in METHODS}
    for method in METHODS:
        curves = [_curve(run, method, seed) for seed in _seeds(run)]
        for name in SETS:
            cells[method][f"feature_{name}"] = [over(curve["step"], curve[f"feature_{name}"]) for curve in curves]
    return cells


def at_the_end(steps: Sequence[float], values: Sequence[float]) -> float:
    """After the last epoch."""
    return values[-1]


def late(steps: Sequence[float], values: Sequence[float]) -> float:
    """The mean over the epochs of the second half of the training, when the radius has its full size."""
    chosen = [v for t, v in zip(steps, values, strict=True) if 2 * t > steps[-1]]
    return sum(chosen) / len(chosen)


def difference(key: str, over: Callable[[Sequence[float], Sequence[float]], float]) -> Judge:
    """A difference over paired seeds is at least SMALL, judged with Student's interval."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        cells = _summed(run, over)
        values = differences(cells)[key]
        how = {k: run.summary["inversion"][k] for k in ("start", "layer", "steps", "mean_error")}
        return _judged(runs, at_least(mean_interval(values), SMALL, by_seed=plain(values), cells=plain(cells), inversion=how))

    return judge


def _ordered(runs: Runs) -> Finding:
    """At every epoch of the second half the non-robust curve of standard training is above the robust one: the smallest difference of each seed."""
    run = runs["run"]
    least = []
    for seed in _seeds(run):
        curve = _curve(run, "standard", seed)
        gaps = [a - b for t, a, b in zip(curve["step"], curve["feature_NR"], curve["feature_R"], strict=True) if 2 * t > curve["step"][-1]]
        least.append(smallest(gaps))
    return _judged(runs, at_least(mean_interval(least), 0.0, by_seed=plain(least)))


def _as_printed(runs: Runs) -> Finding:
    """Each of the four feature accuracies is within SMALL of the printed one; the worst cell is judged, with the interval over seeds."""
    run = runs["run"]
    cells, printed = _summed(run, at_the_end), run.summary["printed"]
    gaps = {}
    for method in METHODS:
        for key, values in cells[method].items():
            found = mean_interval(values)
            centre = printed[method][key] if printed else float("nan")
            below, above = centre - found.high, found.low - centre
            gaps[f"{method} {key}"] = Interval(
                abs(found.value - centre), largest([below, above, 0.0]), largest([found.high - centre, centre - found.low])
            )
    worst = Interval(*(largest([gap[i] for gap in gaps.values()]) for i in range(3)))
    return _judged(runs, at_most(worst, SMALL, gaps=plain({key: gap.value for key, gap in gaps.items()}), cells=plain(cells)))


def _three(need: Need, suffix: str, when: str, over: Callable[[Sequence[float], Sequence[float]], float]) -> tuple[Reading, ...]:
    return tuple(
        Reading(f"{name}{suffix}", f"{text}, by at least {SMALL:g}: {when}", {"run": need, "tested": FEATURES}, difference(key, over))
        for name, (key, text) in STATEMENTS.items()
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "AT-T1",
        "at",
        "AT Table 1 (§6.2, A.1)",
        "On real images standard training learns non-robust features rather than robust ones; adversarial training suppresses the former and strengthens the latter.",
        CONDITIONS,
        (
            *_three(FEATURES, "", "after training, inversion from noise", at_the_end),
            Reading(
                "table",
                f"the four printed feature accuracies: the largest distance of ours from them is at most {SMALL:g}",
                {"run": FEATURES, "tested": FEATURES},
                _as_printed,
            ),
            *(
                r
                for start, need in STARTS.items()
                for r in _three(need, f"-{start}", f"after training, inversion from {start}", at_the_end)
            ),
            *_three(SMALL_STEPS, "-small-steps", "after training, inversion from noise in steps of .05", at_the_end),
        ),
    ),
    Claim(
        "AT-F4",
        "at",
        "AT Figures 4 and 5",
        "The same along training: the curves of feature learning accuracy over epochs are ordered so.",
        CONDITIONS,
        (
            *_three(FEATURES, "", "mean over the second half of the epochs", late),
            Reading(
                "standard-ordered",
                "in standard training the curve of D̂_NR is above that of D̂_R at every epoch of the second half: the smallest difference is at least 0",
                {"run": FEATURES, "tested": FEATURES},
                _ordered,
            ),
        ),
    ),
)
