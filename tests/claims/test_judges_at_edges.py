"""Judges where a number lies exactly at a limit that is not the claim's own bound: which rows count, which
hypothesis is met, which branch is taken. What is right there the second reading says."""

import importlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from judging import TABLES, Cannot
from second_reading import agree, at_settings, edited, entry_of

from featscope.claims.registry import claims
from featscope.core.rules import MUCH, PRINTED_SHARE_REACHED, SPEAKS
from featscope.papers.at.printed import TABLE_1

for kind in ("judge_rows", "second"):
    for module in sorted(Path(__file__).parents[1].glob(f"papers/*/{kind}_*.py")):
        importlib.import_module(module.stem)

Row = dict[str, Any]
Change = Callable[[Any], Any]
EDGES: dict[str, tuple[str, str, Change]] = {}


def edge(told: str, claim: str, *names: str) -> Callable[[Change], Change]:
    """Enter a change of the rows that a reading HOLDS on, by a text that says which limit they then lie at."""

    def enter(change: Change) -> Change:
        for name in names:
            EDGES[f"{claim} {name}: {told}"] = (claim, name, change)
        return change

    return enter


def runs_of(claim: str, name: str) -> dict[str, Any]:
    entry = TABLES[claim, name]()
    return dict(entry.cases[0].runs if isinstance(entry, Cannot) else entry.holds.runs)


@pytest.mark.parametrize("told", EDGES)
def test_a_judge_at_an_edge(told: str) -> None:
    claim, name, change = EDGES[told]
    reading = next(r for r in claims()[claim].readings if r.name == name)
    entry = entry_of(claim, name)
    runs = runs_of(claim, name)
    runs["run"] = change(runs["run"])
    agree(reading.judge(runs), entry.second(runs, entry.pattern.fullmatch(name)), told)


def setting_all(part: str, **values: Any) -> Change:
    """Every row of a part with these values."""
    return lambda run: edited(run, part, lambda row: values)


def with_another_seed(part: str, *keys: str) -> Change:
    """The rows of a part once more before them, as a later seed with other numbers."""

    def change(run: Any) -> Any:
        later = edited(run, part, lambda row: {"seed": 1, **{key: 1.1 * row[key] for key in keys}})
        both = edited(run, part, dict)
        both.__dict__["rows"] = pl.concat([later.rows, run.rows])
        return both

    return change


@pytest.mark.parametrize(
    ("claim", "name", "part", "key", "shown"),
    [
        ("FA-attack", "gradient", "gradient", "gradient", "size"),
        ("FA-limit", "gap of margins (n = k³, d = k³)", "net", "margin_gap", "values"),
    ],
)
def test_what_is_fitted_is_shown_by_dimension_then_by_seed(
    claim: str, name: str, part: str, key: str, shown: str
) -> None:
    reading = next(r for r in claims()[claim].readings if r.name == name)
    before = runs_of(claim, name)
    alone = reading.judge(before).evidence
    found = reading.judge({"run": with_another_seed(part, key)(before["run"])}).evidence
    assert found["k"] == [k for k in alone["k"] for _ in range(2)]
    assert found[shown] == pytest.approx([factor * v for v in alone[shown] for factor in (1.0, 1.1)])


# --- AT


@edge("read from 95 % on", "AT-depth", "standard (conv-1, k = 2)", "standard (residual, k = 10)")
def just_read(run):
    return edited(run, "dynamics", lambda row: {"feature_non_robust": 0.95, "feature_robust": 0.95})


@edge(
    "learned from a third of the way on",
    "AT-depth",
    "standard (conv-1, k = 10)",
    "adversarial (conv-1, k = 10)",
)
def just_learned(run):
    return edited(run, "dynamics", lambda row: {"clean_test": 0.4})


@edge(
    "an epoch in the middle",
    "AT-F4",
    "suppressed-same-start",
    "standard-ordered-reader-is-reference",
    "strengthened-other-start",
    "standard-non-robust-other-start",
)
def epoch_in_the_middle(run):
    """Six epochs, the third at one half: the second half begins after it."""
    values = (0.9, 0.1, 0.3, 0.05, 0.8, 0.7, 0.4)

    def change(row: Row) -> Row | None:
        value = values[row["step"]]
        return {"feature_NR": value, "feature_R": 1 - value / (1 + row["seed"])}

    found = edited(run, "curve", change)
    steps = {row["step"] for row in found.rows.to_dicts() if row["part"] == "curve"}
    assert max(steps) / 2 in steps
    return found


def lost_seed(arm: str) -> Change:
    """One seed of one network's training has left the numbers."""

    def change(run):
        note = {"diverged": {"0": 3}, "how": {"0": "overflowed"}}
        found = edited(run, "dynamics", lambda row: row)
        found.__dict__["manifest"] = {"wall_seconds": 0.0, "notes": {f"dynamics[net=conv-1,arm={arm}]": note}}
        return found

    return change


for name in ("standard (conv-1, k = 2)", "adversarial (conv-1, k = 2)"):
    for lost in ("standard", "adversarial"):
        edge(f"a seed that diverged, {lost}", "AT-depth", name)(lost_seed(lost))


@edge("accuracies, reads and errors as asked", "AT-T1", "suppressed-other-start", "table-same-start")
def as_asked(run):
    return edited(run, "read", lambda row: {"accuracy": 0.9, "error_mean": 0.2})


def test_networks_that_just_reach_the_printed_accuracies() -> None:
    claim, name = "AT-T1", "suppressed-other-start"
    runs = runs_of(claim, name)
    printed = TABLE_1[runs["run"].settings.network.dataset]

    def reached(row: Row) -> Row:
        goal = printed[row["method"]]
        asked = {"clean_test": goal.clean_test, "robust_test": goal.robust_test}
        return {key: PRINTED_SHARE_REACHED * level for key, level in asked.items()}

    runs["tested"] = edited(runs["tested"], "tested", reached)
    entry = entry_of(claim, name)
    reading = next(r for r in claims()[claim].readings if r.name == name)
    found = reading.judge(runs)
    agree(found, entry.second(runs, entry.pattern.fullmatch(name)), name)
    assert found.unmet == ()


@edge("learned from .4 on, robust from a third on", "AT-T2", "mnist-standard", "cifar10-adversarial-small")
def just_robust(run):
    return edited(run, "learned", lambda row: {"clean_test": 0.75, "robust_test": 0.25})


@edge("a reference that just follows at the last radius", "AT-T2", "mnist-standard-moved")
def just_moved(run):
    last = max(run.settings.reach)
    return edited(run, "reach", lambda row: {"own_head": 0.5 if row["eps"] == last else 0.4999})


@edge("learned from .4 on", "AT-T2", "mnist-adversarial-low", "cifar10-standard")
def just_ten_classes(run):
    return edited(run, "learned", lambda row: {"clean_test": 0.1 + 0.9 * (1 / 3)})


@edge("a radius that is just β", "AT-P3.1", "model-free")
def radius_is_beta(run):
    return at_settings(run, eps=run.settings.law.beta_supremum)


@edge("as many vectors as dimensions", "AT-LE.2", "more-dimensions")
@edge("as many vectors as dimensions", "AT-LE.9", "patch-clip", "coordinate-clip (initial weights)")
def full_span(run):
    return edited(run, "spans", lambda row: {"vectors": 40, "room": 40})


@edge("one vector fewer than dimensions", "AT-LE.9", "patch-clip")
def nearly_full_span(run):
    return edited(run, "spans", lambda row: {"vectors": 39, "room": 40})


@edge("a difference that is just rounding", "AT-L5.1", "descent")
@edge("a difference that is just rounding", "AT-LD.17", "patch-clip")
def just_rounding(run):
    late = {"gap_diagonal": 3e-9, "gap_x": 2e-9}
    return edited(run, "dynamics", lambda row: late if row["step"] else {"gap_diagonal": 1e-9, "gap_x": 1e-9})


@edge("pairs that start at zero or below", "AT-LD.7", "noiseless")
@edge("pairs that start at zero or below", "AT-LD.21", "coefficient-clip")
def from_zero(run):
    values = {0: [0.0, 0.2], 10: [5.0, 0.3], 20: [9.0, 0.1]}
    return edited(run, "dynamics", lambda row: {"C": values[row["step"]], "D": [-1.0, 0.0]})


@edge("steps that are rounding, and ratios of just three", "AT-L5.2", "as-printed", "features-only")
def just_moving(run):
    """Rounding is 1e-14, and not moving is no miss; a third and three times are within the factor."""
    exact = {"exact_A": [1e-14, 1.0], "exact_B": [3.0, -1.0]}
    guess = {"approximation_A": [0.0, 3.0], "approximation_B": [1.0, 1.0]}
    return edited(run, "dynamics", lambda row: {**exact, **guess})


@edge("19 of 20 runs reach the horizon", "AT-LD.11", "until-d²")
@edge("19 of 20 runs reach the horizon", "AT-LD.26", "two-sided (max B)")
def nearly_all_arrive(run):
    late = {"time": 1.0}
    return edited(run, "curves", lambda row: late if (row["d"], row["seed"]) == (100, 0) else {})


@edge("half of the runs have the event", "AT-LD.9", "median")
@edge("half of the runs have the event", "AT-LD.25", "as-printed")
def usual(run):
    return edited(
        run, "events", lambda row: {"happened": row["seed"] % 2 == 0, "A": 0.5, "B": 0.25 * row["d"]}
    )


@edge("fewer than half of the runs have the event", "AT-LD.9", "median")
@edge("fewer than half of the runs have the event", "AT-LD.24", "two-sided")
@edge("fewer than half of the runs have the event", "AT-LD.26", "features-only")
def unusual(run):
    found = edited(run, "events", lambda row: {"happened": row["seed"] == 0, "A": 0.5, "B": 0.25})
    return edited(found, "curves", lambda row: {"u": [0.1 * row["seed"], 0.3 + row["d"]]})


@edge("a correlation that is not there", "AT-LD.9", "high-probability")
def no_correlation(run):
    return edited(run, "events", lambda row: {"A": None} if row["seed"] == 3 else {})


@edge("two dimensions alone", "AT-LD.9", "median")
@edge("two dimensions alone", "AT-LD.24", "features-only")
def two_dimensions(run):
    return edited(run, "events", lambda row: {} if row["d"] <= 1000 else None)


@edge("three dimensions", "AT-LD.23", "features-only")
def three_dimensions(run):
    return edited(run, "events", lambda row: {} if row["d"] <= 10_000 else None)


@edge("what is zero or negative has no ratio", "AT-F3", "standard", "adversarial")
@edge("what is zero or negative has no ratio", "AT-R2.5", "switch (exact)")
def no_ratio(run):
    def change(row: Row) -> Row:
        return {"u": [1.0, 0.0], "v": [0.0, 0.0]} if row["seed"] else {"u": [-1.0, 2.0], "v": [0.5, -0.5]}

    return edited(run, "dynamics", change)


# --- CGRO

STAGES = (
    ("CG-L4.2", "until memorisation"),
    ("CG-L4.2", "any t"),
    ("CG-L4.3", "up to a logarithm"),
    ("CG-L4.4", "until memorisation"),
    ("CG-LC.5", "until memorisation"),
    ("CG-LC.7", "all later steps"),
    ("CG-LC.8", "up to a logarithm"),
    ("CG-LC.9", "up to a logarithm"),
)


def rough(run, **sentinels: int):
    """Rows that differ from step to step, and times of which each seed has its own."""

    def change(row: Row) -> Row:
        at = 1 + row["step"] / 1000 + row["seed"] / 10
        grown = {key: value * at for key, value in row.items() if isinstance(value, float)}
        return {**grown, **sentinels}

    return edited(run, "training", change)


for claim, name in STAGES:
    edge("everything has happened at step 0", claim, name)(
        lambda run: rough(run, signal_at=0, first_memorised=0, last_memorised=0)
    )
    edge("nothing ever happens", claim, name)(
        lambda run: rough(run, signal_at=-1, first_memorised=-1, last_memorised=-1)
    )
    edge("everything happens at a recorded step", claim, name)(
        lambda run: rough(run, signal_at=100, first_memorised=200, last_memorised=300)
    )


@edge("starts that are never reached, or at once", "CG-L4.2", "T0")
def odd_starts(run):
    times = {
        0: (0, 1.0),
        1: (-1, 2.0),
        2: (3, 1.0),
        3: (1, 3.0),
        4: (5, 0.0),
        5: (4, 1.0),
        6: (2, None),
        7: (11, 10.0),
    }
    return edited(
        run,
        "starts",
        lambda r: dict(zip(("T0", "T0_predicted"), times.get(r["seed"], (10, 10.0)), strict=True)),
    )


@edge("N at most N*", "CG-LC.10", "growth in N")
def up_to_critical(run):
    sizes = sorted({row["n"] for row in run.rows.to_dicts() if row["n"] is not None})
    return edited(
        run, "samples", lambda row: {"critical_samples": float(sizes[-2]), "slack": row["n"] ** 0.05}
    )


@edge("N a tenth of N*", "CG-T4.1", "N≪N*", "N=poly")
def tenth_of_critical(run):
    return edited(run, "samples", lambda row: {"critical_samples": MUCH * max(run.settings.samples)})


@edge("N a little more than a tenth of N*", "CG-T4.1", "N≪N*")
def more_than_a_tenth(run):
    return edited(run, "samples", lambda row: {"critical_samples": MUCH * max(run.settings.samples) - 1})


@edge("sizes of 0 and below", "CG-T4.1", "features", "features up to a logarithm")
def no_size(run):
    return edited(run, "training", lambda row: {"V_min": [0.0, -1.0, 0.25][row["seed"]]})


@edge("a share of just 1 is allowed", "CG-LA.4", "as printed")
def all_allowed(run):
    return edited(run, "noise", lambda row: {"printed": 1.0})


@edge(
    "phases around 1",
    "CG-E.2-density",
    "known density, small δ",
    "known density, any network",
    "known density, convex loss",
)
def around_one(run):
    """Constants fall with the phase: which phases count decides the least."""
    found = sorted({row["phase"] for row in run.rows.to_dicts() if row["phase"] is not None})
    phases = dict(zip(found, (0.5, 1.0, 1.25), strict=True))
    return edited(
        run, "constants", lambda r: {"phase": phases[r["phase"]], "constant": 2 - phases[r["phase"]]}
    )


@edge(
    "nothing over nothing",
    "CG-E.1-density",
    "remembering network, δ as in the proof",
    "remembering network, δ apart",
)
def nothing_over_nothing(run):
    zero = {"clean": 0.0, "flatness_low": 0.0, "flatness_high": 0.0}
    return edited(
        run, "memory", lambda row: zero if row["seed"] == 0 else {"clean": 0.1, "flatness_high": 0.5}
    )


@edge(
    "something over nothing",
    "CG-E.1-density",
    "remembering network, δ as in the proof",
    "remembering network, δ apart",
)
def something_over_nothing(run):
    return edited(run, "memory", lambda row: {"clean": 0.1, "flatness_low": 0.0, "flatness_high": 0.5})


@edge("just three times", "CG-E.1-density", "remembering network, δ apart")
def just_three_times(run):
    values = {"radius": 0.25, "rate": 0.25, "clean": 0.25, "flatness_low": 0.5, "flatness_high": 1.0}
    return edited(run, "memory", lambda row: values)


LANDSCAPE = ("mnist-train-descends", "mnist-sharper", "cifar10-test-ascends")


def uneven(run, ramp: int):
    """Full radius from epoch ``ramp`` on; gradients differ from epoch to epoch and from radius to radius."""
    attack = run.settings.training.attack
    training = run.settings.training.replace(attack=attack.replace(ramp=attack.ramp.replace(epochs=ramp)))

    def change(row: Row) -> Row:
        lists = {
            key: [v * (1 + row["step"] / 7 + i / 9) for i, v in enumerate(value)]
            for key, value in row.items()
            if isinstance(value, list)
        }
        return {**lists, "robust_loss_test": 1 + row["step"] ** 2 / 10 + row["seed"]}

    return edited(at_settings(run, training=training), "training", change)


for ramp in (0, 1, 2):
    edge(f"full radius from epoch {ramp} on", "CG-F2", *LANDSCAPE)(lambda run, ramp=ramp: uneven(run, ramp))
    edge(f"full radius from epoch {ramp} on", "CG-F3", "mnist-faster", "mnist-gap-follows")(
        lambda run, ramp=ramp: uneven(run, ramp)
    )
    edge(f"full radius from epoch {ramp} on", "CG-E.1", "mnist-printed")(
        lambda run, ramp=ramp: uneven(run, ramp)
    )


@edge("a network that says the same everywhere", "CG-F2", "mnist-train-descends")
@edge(
    "a network that says the same everywhere",
    "CG-F3",
    "mnist-faster",
    "mnist-much-faster",
    "mnist-gap-follows",
)
@edge("a network that says the same everywhere", "CG-E.1", "mnist-printed")
def says_the_same(run):
    def change(row: Row) -> Row:
        return {key: [0.0] * len(value) for key, value in row.items() if isinstance(value, list)}

    return edited(run, "training", change)


@edge("networks that have not fitted are judged", "CG-E.1", "mnist-printed", "cifar10-printed")
@edge("networks that have not fitted are judged", "CG-E.2", "mnist-ball", "cifar10-images")
@edge("networks that have not fitted are out of scope", "CG-F2", "mnist-sharper")
@edge("networks that have not fitted are out of scope", "CG-F3", "cifar10-much-faster")
def unfitted(run):
    return edited(run, "training", lambda row: {"robust_train": 0.05})


# --- EP


@edge("two equal images", "EP-sep", "mnist-separated", "mnist-far")
def equal_images(run):
    key = "closest[dataset=mnist,pair=train-train]"
    found = edited(run, "closest", lambda row: {"separation": 0.0} if _is(row, "train-train") else {})
    found.__dict__["tensors"] = {**run.tensors, f"{key}/right": run.tensors[f"{key}/left"]}
    return found


def _is(row: Row, pair: str) -> bool:
    return row["dataset"] == "mnist" and row["pair"] == pair


@edge("one half was not searched", "EP-sep", "mnist-separated", "mnist-table")
def half_searched(run):
    return edited(run, "closest", lambda row: {"whole": False} if _is(row, "test-train") else {})


# --- FA


@edge("heads that have just learned", "FA-F2cd", "2-class", "2-class larger")
def just_learned_head(run):
    return edited(run, "table", lambda row: {"test_own": 0.75})


@edge("heads that have just learned", "FA-F2cd", "10-class")
def just_learned_fine(run):
    return edited(run, "table", lambda row: {"test_own": 0.1 + 0.5 * (1 - 0.1)})


@edge("averaging just uniform", "FA-F6", "sweep")
@edge("averaging just uniform", "FA-F5", "sweep")
def just_uniform(run):
    return edited(run, "table", lambda row: {"min": 0.75, "other_max": 0.25})


@edge("one half is never crossed", "FA-F3", "published 2-class", "ordering")
def never_crossed(run):
    return edited(run, "curve", lambda row: {"binary_exact": 0.5})


@edge("seeds in no order", "FA-F3", "ordering")
@edge("seeds in no order", "FA-T4.5", "paper/robust")
def seeds_in_no_order(run):
    """Proofs of seed s are about s + 1 points."""
    order = (7, 2, 9, 0, 5)
    names = ("w", "b", "a", "x", "y", "delta", "certificate")
    stored = {name: run.tensors[f"radii[seed=0]/{name}"] for name in names}
    tensors = {
        f"radii[seed={seed}]/{name}": torch.cat([t[:1]] * (seed + 1)) if name in names[3:] else t
        for seed in order
        for name, t in stored.items()
    }
    row = next(row for row in run.rows.to_dicts() if row["part"] == "radii")
    rest = run.rows.filter(pl.col("part") != "radii")
    listed = pl.DataFrame([{**row, "seed": seed} for seed in order], schema=run.rows.schema)
    found = edited(run, "radii", lambda row: row)
    found.__dict__.update(rows=pl.concat([rest, listed]), tensors=tensors)
    return found


@edge("a shift of just the precision", "FA-F3", "published 2-class")
def just_shifted(run):
    """The published curve crosses one half at 14 + 2·(.91 − .5)/(.91 − .31)."""
    at = 14 + 2 * 0.41 / 0.6 + 1
    radii = sorted({row["radius"] for row in run.rows.to_dicts() if row["radius"] is not None})
    where = {radii[0]: at - 1, radii[1]: at, radii[2]: at + 1, radii[3]: at + 2}
    accuracy = {radii[0]: 1.0, radii[1]: 0.5, radii[2]: 0.25, radii[3]: 0.0}
    return edited(
        run, "curve", lambda r: {"radius": where[r["radius"]], "binary_exact": accuracy[r["radius"]]}
    )


@edge("networks that have just learned two classes", "FA-F3mc", "mnist-readout", "cifar10-searched")
def just_two_classes(run):
    return edited(run, "curve", lambda row: {"binary": 2 / 3, "fine_readout": 2 / 3})


@edge("a window of one step", "FA-T4.5", "assumption/clean", "assumption/weights")
@edge("a window of one step", "FA-T4.6", "assumption")
def one_step_window(run):
    return edited(run, "proof", lambda row: {"least_steps": 4.0, "least_steps_fine": 9.0, "most_steps": 4.0})


@edge("a window of one step", "FA-T4.7", "assumption/clean", "assumption/robust", "assumption/weights")
def one_step_window_fine(run):
    return edited(run, "proof", lambda row: {"least_steps": 9.0, "least_steps_fine": 4.0, "most_steps": 4.0})


@edge("an empty window", "FA-T4.5", "assumption/clean", "assumption/robust", "assumption/weights")
@edge("an empty window", "FA-T4.6", "assumption-large")
def empty_window(run):
    return edited(run, "proof", lambda row: {"least_steps": 5.0, "least_steps_fine": 1.0, "most_steps": 4.0})


@edge("an empty window", "FA-T4.7", "assumption/clean", "assumption/robust", "assumption/weights")
def empty_window_fine(run):
    return edited(run, "proof", lambda row: {"least_steps": 1.0, "least_steps_fine": 5.0, "most_steps": 4.0})


def speaking(net: str, epsilon: float, k: int = 1) -> Change:
    """λ all alike, and an ε that makes the bound 204·k²ε."""

    def change(run):
        found = edited(run, "proof", lambda row: {"epsilon": epsilon, "k": k})
        return edited(found, net, lambda row: {"lambda_ratio": 1.0})

    return change


for claim, net in (("FA-LB.24", "binary"), ("FA-LC.24", "fine")):
    edge("a bound that just speaks", claim, "assumption")(speaking(net, SPEAKS / 204))
    edge("a bound that just does not", claim, "assumption")(speaking(net, math.nextafter(SPEAKS / 204, 1)))
    edge("k² in the bound", claim, "assumption", "assumption-large")(speaking(net, SPEAKS / 408, k=2))


def at_law(**sizes: int) -> Change:
    """The run at a law of these sizes, where no point is robust at any radius."""

    def change(run):
        found = edited(run, "radii", lambda row: {"binary_exact": 0.0})
        return at_settings(found, law=run.settings.law.replace(**sizes))

    return change


#: d = 2·4^j makes √(d/2) and factor·√(d/k) exact
for claim, name, k in (
    ("FA-T4.5", "paper/robust", 32),
    ("FA-TD.2", "built", 32),
    ("FA-P4.8", "built", 72),
):
    edge("a radius of just half the distance of two centres", claim, name)(at_law(k=k, d=2048))
    edge("a radius just below half the distance of two centres", claim, name)(at_law(k=k + 2, d=2048))
    edge("a radius just above half the distance of two centres", claim, name)(at_law(k=k - 2, d=2048))


@edge("a ratio of 0", "FA-LB.24", "o(1)", "assumption")
def ratio_of_zero(run):
    return edited(run, "binary", lambda row: {"lambda_ratio": 0.0})


@edge("a margin of 0", "FA-L5.3", "paper", "assumption")
def no_margin(run):
    return edited(run, "binary", lambda row: {"margin_max": 0.0, "margin_min": -1.0})


@edge("a λ of 0", "FA-T4.5", "paper/weights", "assumption/weights")
def no_lambda(run):
    return edited(run, "binary", lambda row: {"lambda_mean": 0.0})


@edge("of equal verdicts the smallest d decides", "FA-T4.5", "talk/clean")
@edge("of equal verdicts the smallest d decides", "FA-T4.7", "talk/clean")
def all_wrong(run):
    wrong = {"clean_binary": 0.2, "clean_fine": 0.1}
    return edited(
        run, "setting", lambda row: {key: value + row["at"] * 1e-10 for key, value in wrong.items()}
    )


@edge("a mean λ of 0", "FA-T4.5", "talk/weights")
def no_mean_lambda(run):
    return edited(run, "setting", lambda row: {"lambda_min": 0.0})


def uneven_flow(run, net: str):
    """Along the flow each item is worst at another step, on its own side of its bound."""

    def change(row: Row) -> Row:
        t = row["step"]
        return {
            "time": 0.3 + t / 4,
            "sigma_max": 0.02 * t,
            "sigma_min": 0.01 - 0.02 * t,
            "margin_min": 1.0 - t,
            "margin_max": 2.0 + t / 3,
            "slope_ratio": 1.5 + t,
            "slope_ratio_cluster": 1.2 + t / 5,
            "hat_gap": 0.04 * t,
            "hat_gap_cluster": 0.06 / (1 + t),
            "own_active": 1.0 - 0.25 * (t == 2),
            "lambda_other": 0.005 * t,
            "sigma_other": 0.03 / (1 + t),
            "lambda_min": 0.3 + t,
            "lambda_max": 1.0 + 3 * t,
        }

    return edited(edited(run, net, change), "start", lambda row: change(row) if row["net"] == net else {})


for claim, name, net in (
    *(
        (claim, f"{group}/{where}", net)
        for claim, net in (("FA-LB.7", "binary"), ("FA-LC.10", "fine"))
        for group in ("σ from above", "σ from below", "balance", "other classes")
        for where in ("first steps", "whole flow")
    ),
    ("FA-LB.23", "rate", "binary"),
    ("FA-LB.23", "assumption", "binary"),
    ("FA-LC.23", "assumption-large", "fine"),
    ("FA-L5.5", "paper", "binary"),
    ("FA-L5.5", "assumption-lemma", "binary"),
):
    edge("a flow on both sides of its bounds", claim, name)(lambda run, net=net: uneven_flow(run, net))


@edge("an item exactly at its bound", "FA-LB.7", "other classes/whole flow")
def item_at_bound(run):
    """|λ| of other clusters is ε, and |σ| of other classes 2ε: neither is broken."""
    eps = 0.01
    found = edited(run, "proof", lambda row: {"epsilon": eps})
    return edited(found, "binary", lambda row: {"lambda_other": eps, "sigma_other": 2 * eps, "time": math.e})


def test_every_edge_is_of_a_reading_that_is_there() -> None:
    known = set(_names())
    assert {(claim, name) for claim, name, _ in EDGES.values()} <= known


def _names() -> Iterator[tuple[str, str]]:
    for claim in claims().values():
        for reading in claim.readings:
            yield claim.id, reading.name
