"""What AT's judges of the recursions must say: AT-L5.1, LD.4, LD.2, L5.2, LD.16 to LD.18, LD.7, LD.21."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judging import Case, Table, judged, made

from featscope.experiments.run import Run

NAN = float("nan")


ARMS = ("standard", "adversarial", "patch", "coordinate", "features-only")
GAPS = ("gap", "gap_diagonal", "gap_off", "gap_x", "outside")


def gaps(arm: str, column: str, by_seed: Sequence[float]) -> Run:
    """The largest difference of each seed, reached in the middle of the run; other arms and other columns say
    the opposite."""
    far = 0.0 if max(by_seed) > 1e-9 else 1.0
    rows = [
        {
            "arm": name,
            "step": step,
            "seed": seed,
            "size": 1.0,
            **dict.fromkeys(GAPS, far),
            **({column: share * gap} if name == arm else {}),
        }
        for name in ARMS
        for step, share in ((0, 0.0), (10, 1.0), (20, 0.5))
        for seed, gap in enumerate(by_seed)
    ]
    return made("patch-recursion", {"dynamics": rows}, seeds=list(range(len(by_seed))))


def equal(arm: str, column: str) -> Table:
    """Two routes agree within 1e-9 at every step of every seed."""

    def case(by_seed: Sequence[float], verdict: str, value: float | None = None) -> Case:
        return Case({"run": gaps(arm, column, by_seed)}, verdict, value, 1e-9)

    return Table(
        holds=case((1e-15, 3e-15, 2e-15), "HOLDS", 3e-15),
        fails=case((2e-9, 4e-9, 3e-9), "FAILS", 4e-9),
        at_bound=case((1e-9, 1e-9), "HOLDS", 1e-9),
        bad_seed=case((1e-15, 1e-6, 1e-15), "FAILS", 1e-6),
        nan=case((1e-15, NAN), "FAILS"),
        more=(case((NAN, 1e-15), "FAILS"),),
    )


@judged("AT-L5.1", "descent")
def diagonal_recursion() -> Table:
    return equal("standard", "gap_diagonal")


@judged("AT-LD.4", "descent")
def off_diagonal_recursion() -> Table:
    return equal("standard", "gap_off")


@judged("AT-LD.2", "descent")
def standard_decomposition() -> Table:
    return equal("standard", "outside")


CLIP_ARMS = {"lemma-clip": "adversarial", "patch-clip": "patch", "coordinate-clip": "coordinate"}


@judged("AT-LD.16", *CLIP_ARMS)
def adversarial_decomposition(name: str) -> Table:
    return equal(CLIP_ARMS[name], "outside")


@judged("AT-LD.17", *CLIP_ARMS)
def adversarial_examples(name: str) -> Table:
    return equal(CLIP_ARMS[name], "gap_x")


@judged("AT-LD.18", *CLIP_ARMS)
def adversarial_recursion(name: str) -> Table:
    return equal(CLIP_ARMS[name], "gap")


#: values of two pairs at steps 0, 10, 20: neither moves; the small one doubles in the middle and comes back
STILL = ((1.0, 0.01), (1.0, 0.01), (1.0, 0.01))


def growing(factor: float, start: float = 0.01) -> tuple[tuple[float, float], ...]:
    """The second pair grows by ``factor`` from far below the first and falls to half of its start; the
    maximum over pairs and the last step hide it."""
    return (1.0, start), (1.0, factor * start), (1.0, start / 2)


def crossings(experiment: str, arm: str, seeds: Sequence[tuple[Any, Any]], noise: float = 0.0) -> Run:
    """C and D of each seed at three steps, in no order; the other arm says the opposite."""
    other = "standard" if arm == "adversarial" else "adversarial"
    rows = [
        {"arm": arm, "step": step, "seed": seed, "C": list(c[at]), "D": list(d[at])}
        for at, step in ((2, 20), (0, 0), (1, 10))
        for seed, (c, d) in enumerate(seeds)
    ]
    calm = all((c, d) == (STILL, STILL) for c, d in seeds)
    opposite = growing(50.0) if calm else STILL
    wrong = [
        {"arm": other, "step": step, "seed": 0, "C": list(opposite[at]), "D": list(opposite[at])}
        for at, step in ((0, 0), (1, 10), (2, 20))
    ]
    law = {"law__sigma_n": noise} if experiment == "patch-fig3" else {}
    return made(experiment, {"dynamics": rows + wrong}, seeds=list(range(len(seeds))), **law)


@judged("AT-LD.7", "noiseless", "with-noise")
def standard_crossings(name: str) -> Table:
    return stays({"noiseless": "patch-recursion", "with-noise": "patch-fig3"}[name], "standard")


@judged("AT-LD.21", "coefficient-clip", "patch-clip")
def adversarial_crossings(name: str) -> Table:
    return stays({"coefficient-clip": "patch-recursion", "patch-clip": "patch-fig3"}[name], "adversarial")


def stays(experiment: str, arm: str) -> Table:
    """Every pair stays within a factor three of its start, in every seed."""

    def case(seeds: Sequence[tuple[Any, Any]], verdict: str, value: float | None = None) -> Case:
        return Case({"run": crossings(experiment, arm, seeds)}, verdict, value, 3.0)

    # The lemma is about data without noise.
    far = {"run": crossings(experiment, arm, [(growing(4.0), STILL)], noise=0.1)}
    noisy = [Case(far, "OUT_OF_SCOPE", 4.0, 3.0, "FAILS")] if experiment == "patch-fig3" else []
    lost = ((1.0, 0.01), (1.0, NAN), (1.0, 0.01))
    unborn = ((1.0, NAN), (1.0, 0.01), (1.0, 0.01))
    return Table(
        holds=case([(STILL, STILL), (growing(2.0), STILL), (STILL, growing(2.5))], "HOLDS", 2.5),
        fails=case([(growing(4.0), STILL), (STILL, growing(5.0))], "FAILS", 5.0),
        at_bound=case([(growing(3.0, 1.0), STILL)], "HOLDS", 3.0),
        bad_seed=case([(STILL, STILL), (STILL, growing(20.0)), (STILL, STILL)], "INCONCLUSIVE", 20.0),
        nan=case([(STILL, STILL), (lost, STILL)], "INCONCLUSIVE"),
        more=(
            case([(STILL, STILL), (STILL, STILL)], "HOLDS", 1.0),
            case([(STILL, STILL), (STILL, lost)], "INCONCLUSIVE"),
            case([(unborn, STILL), (STILL, STILL)], "INCONCLUSIVE"),
            case([(((1.0, -0.01), (2.5, 5.0), (1.0, 5.0)), STILL)], "HOLDS", 2.5),
            # A pair that starts at or below zero has no growth; one alone is passed over, none at all leaves
            # nothing to judge.
            case([(growing(50.0, -0.01), growing(2.0))], "HOLDS", 2.0),
            case([(((0.0,), (5.0,), (5.0,)), STILL)], "HOLDS", 1.0),
            case([(((0.0,), (5.0,), (5.0,)), ((-1.0,), (5.0,), (5.0,)))], "INCONCLUSIVE"),
            *noisy,
        ),
    )


Steps = Sequence[tuple[float, float]]


def approximations(
    arm: str, seeds: Sequence[Steps], later: Steps = (), kinds: str = "AB", other: Steps = ((1.0, 1.0),)
) -> Run:
    """Lemma 5.2's step and the exact one, by seed, at the steps of the polynomial stage, and ``later`` ones
    after it; the other arm has ``other``."""
    rows = []
    if other:
        rest = approximations("adversarial" if arm == "features-only" else "features-only", [other], other=())
        rows = rest.rows.drop("part").to_dicts()
    for seed, steps in enumerate(seeds):
        for step, (guess, exact) in enumerate([*steps, *later]):
            row: dict[str, Any] = {"arm": arm, "step": step, "seed": seed, "gap": 0.0}
            row["polynomial"] = 1.0 if step < len(steps) else 0.0
            for kind in "AB":
                known = (guess, exact) if kind in kinds else (1.0, 1.0)
                row |= {f"approximation_{kind}": [known[0]], f"exact_{kind}": [known[1]]}
            rows.append(row)
    standard = {"arm": "standard", "step": 0, "seed": 0, "gap": 0.0}
    return made("patch-recursion", {"dynamics": [*rows, standard]}, seeds=list(range(len(seeds))))


@judged("AT-L5.2", "as-printed", "features-only")
def approximation(name: str) -> Table:
    """At 95 % of the steps the formula is within a factor three of the exact step."""

    def case(
        seeds: Sequence[Steps],
        verdict: str,
        value: float | None = None,
        bound: float | None = 0.95,
        **more: Any,
    ) -> Case:
        arm = "adversarial" if name == "as-printed" else name
        wrong = [bad] * 40 if verdict == "HOLDS" else [good] * 40
        return Case({"run": approximations(arm, seeds, other=wrong, **more)}, verdict, value, bound)

    good, bad = (0.1, 0.11), (0.1, -0.1)
    ten = [good] * 10
    return Table(
        holds=case([ten, ten], "HOLDS", 1.0),
        fails=case([[bad] * 9 + [good]] * 2, "FAILS", 0.1),
        at_bound=case([ten, [good] * 9 + [bad]], "HOLDS", 0.95),
        bad_seed=case([ten, ten, [bad] * 10], "FAILS", 2 / 3),
        nan=case([ten, [good] * 8 + [(NAN, 1.0), (1.0, NAN)]], "FAILS", 0.9),
        more=(
            case([ten, [good] * 8 + [bad, bad]], "FAILS", 0.9),
            case([[(3.0, 1.0), (1.0, 3.0)]], "HOLDS", 1.0),
            case([[(3.01, 1.0)]], "FAILS", 0.0),
            case([[(1.0, 3.01)]], "FAILS", 0.0),
            case([[(1.0, 0.0)]], "FAILS", 0.0),
            case([[(0.0, 1.0)]], "FAILS", 0.0),
            case([[(1e-15, 9e-15), good]], "HOLDS", 1.0),  # both stand still: no step to compare
            case([[(1e-14, -1e-14), good]], "HOLDS", 1.0),
            case([[(3e-14, 1e-14 * 0.5), good]], "FAILS", 0.5),
            case([[bad] * 4], "FAILS", 0.5, kinds="A"),
            case([[bad] * 4], "FAILS", 0.5, kinds="B"),
            case([ten], "HOLDS", 1.0, later=[bad] * 10),
            case([[bad] * 4], "FAILS", 0.0, later=ten),
            case([[]], "VACUOUS", bound=None, later=ten),
            case([[(1e-15, 9e-15)]], "VACUOUS", bound=None),
        ),
    )
