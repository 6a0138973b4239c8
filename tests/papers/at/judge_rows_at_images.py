"""What AT's judges of features of real images must say: AT-T1 and AT-F4."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

from judging import Case, Table, judged, made

from featscope.experiments.run import Run

NAN = float("nan")
HEADS = ("clean_test", "robust_test", "feature_NR", "feature_R")
#: Table 1, typed a second time from the paper
TABLE = {
    data: {
        "standard": dict(zip(HEADS, standard, strict=True)),
        "adversarial": dict(zip(HEADS, adversarial, strict=True)),
    }
    for data, standard, adversarial in (
        ("mnist", (0.9956, 0.0004, 0.8811, 0.4461), (0.9941, 0.9443, 0.3949, 0.6919)),
        ("cifar10", (0.9574, 0.0, 0.9179, 0.6126), (0.8628, 0.4513, 0.1088, 0.6788)),
        ("svhn", (0.9684, 0.0016, 0.7391, 0.6538), (0.9199, 0.5855, 0.3550, 0.7704)),
    )
}
PRINTED = TABLE["mnist"]
Parts = dict[str, list[dict[str, Any]]]
#: the four cells: what networks of a training read of a set, by start
Cells = Mapping[tuple[str, str], Sequence[float]]
#: cells of which every statement holds by .2
GOOD: Cells = {
    ("standard", "NR"): (0.7, 0.7, 0.7),
    ("standard", "R"): (0.5, 0.5, 0.5),
    ("adversarial", "NR"): (0.5, 0.5, 0.5),
    ("adversarial", "R"): (0.7, 0.7, 0.7),
}
RELATIONS = ("reader-is-reference", "same-start", "other-start")
INVERSIONS = ("-grey", "-black", "-image", "-small-steps")
#: end of a reading's name → experiment, data set
OTHERS = {
    "": ("image-features", "mnist"),
    **{f"-few-images-width-{width}": ("image-features-widths", "mnist") for width in (8, 16, 32)},
    "-cifar10": ("image-features-cifar10", "cifar10"),
    "-svhn": ("image-features-svhn", "svhn"),
}
#: what the two networks of a start differ by from their mean, which alone counts
APART = 0.0625


def told(name: str) -> tuple[str, str, str]:
    """Statement, relation and end of a reading's name."""
    for relation in RELATIONS:
        statement_, found, end = name.partition(f"-{relation}")
        if found:
            return statement_, relation, end
    raise AssertionError(name)


def networks(starts: int = 3, data: str = "mnist", published: bool = True, **changed: float) -> Parts:
    """Networks just good enough: .9 of the printed accuracies; ``changed`` says otherwise for the last seed,
    as training_column."""
    rows, last = [], 2 * starts - 1
    for seed in range(2 * starts):
        for method in ("standard", "adversarial"):
            goal = TABLE[data][method]
            row = {
                "clean_test": 0.9 * goal["clean_test"],
                "robust_test": 0.9 * goal["robust_test"] if method == "adversarial" else 0.0,
            }
            if seed == last:
                row |= {key: changed[f"{method}_{key}"] for key in row if f"{method}_{key}" in changed}
            rows.append({"method": method, "seed": seed, "published": published or seed != last, **row})
    return {"tested": rows}


def read(starts: int, own: float, error: float, others: float) -> Parts:
    """References read .9 of their own set, which has an error of .2; the last seed's robust set may be worse.
    Other readers do not count."""
    rows = []
    for seed in range(2 * starts):
        for name, maker in (("NR", "standard"), ("R", "adversarial")):
            worse = seed == 2 * starts - 1 and name == "R"
            for relation in RELATIONS:
                for method in ("standard", "adversarial"):
                    is_own = relation == RELATIONS[0] and method == maker
                    accuracy = others if not is_own else own if worse else 0.9
                    said = {"accuracy": accuracy, "error_mean": error if worse else 0.2}
                    where = {"seed": seed, "relation": relation, "method": method}
                    rows.append({**where, "set": name, "reader": seed, **said})
    return {"read": rows}


def features(
    cells: Cells,
    late: bool = False,
    own: float = 0.9,
    error: float = 0.2,
    printed: bool = True,
    others: float = 0.1,
    relation: str = "other-start",
    experiment: str = "image-features",
    apart: float = APART,
) -> Run:
    """Curves over six epochs, two networks a start around the start's cell. ``cells`` are read at the end, or
    with ``late`` on average over epochs 4 to 6; other epochs, and other relations, say the opposite."""
    starts = len(cells["standard", "NR"])
    parts: Parts = {**read(starts, own, error, others), "curve": []}
    swing = {4: 0.1, 5: 0.2, 6: -0.3}
    for who, method, seed, step in product(
        RELATIONS, ("standard", "adversarial"), range(2 * starts), (6, 5, 4, 3, 2, 1)
    ):
        # Of a pair of networks one is above, in some cells, where the other is below.
        side = apart if seed >= starts else -apart
        row = {
            f"feature_{name}": cells[method, name][seed % starts] + (side if name == "NR" else -side)
            for name in ("NR", "R")
        }
        if late and step > 3:
            # The cells on the two sides of a statement swing against each other.
            sign = 1 if method == "standard" else -1
            row = {
                key: value + (sign if key == "feature_NR" else -sign) * swing[step]
                for key, value in row.items()
            }
        elif step < 6:
            row = {key: 1 - value for key, value in row.items()}
        if who != relation:
            row = {key: 1 - value for key, value in row.items()}
        where = {"relation": who, "method": method, "seed": seed, "step": step, "reader": seed}
        parts["curve"].append({**where, "clean_test": 0.99, **row})
    # What the table's own run says of its networks is not what is asked: they are tested in the other run.
    own_tests = networks(starts, standard_clean_test=0.0)
    # The paper has no table of Fashion-MNIST.
    other = {} if printed else {"network__dataset": "fashion-mnist"}
    return made(experiment, parts | own_tests, seeds=list(range(2 * starts)), **other)


def runs(
    run: Run, starts: int = 3, end: str = "", published: bool = True, **changed: float
) -> dict[str, Run]:
    """The run that is judged and the one in which its networks were tested."""
    experiment, data = OTHERS[end]
    tested = networks(starts, data, published, **changed)
    return {"run": run, "tested": made(experiment, tested, seeds=list(range(2 * starts)))}


#: sets that do not hold the features
LACKING: tuple[dict[str, float], ...] = ({"own": 0.899}, {"own": NAN}, {"error": 0.201}, {"error": NAN})


def scope(late: bool, bound: float, relation: str, end: str) -> tuple[Case, ...]:
    """Whatever the cells say, they say nothing of networks or reconstructions that miss a condition in one
    seed."""
    experiment, data = OTHERS[end]

    def case(run: Run, **changed: Any) -> Case:
        return Case(runs(run, end=end, **changed), "OUT_OF_SCOPE", None, bound, "HOLDS")

    def short(method: str, key: str) -> dict[str, float]:
        return {f"{method}_{key}": 0.9 * TABLE[data][method][key] - 1e-4}

    def set_of(**lacking: float) -> Run:
        return features(GOOD, late, relation=relation, experiment=experiment, **lacking)

    good = set_of()
    return (
        case(good, **short("standard", "clean_test")),
        case(good, **short("adversarial", "clean_test")),
        case(good, **short("adversarial", "robust_test")),
        case(good, standard_clean_test=NAN),
        case(good, adversarial_robust_test=NAN),
        case(good, published=False),
        # The judges are the same for every run; what differs is the printed accuracies.
        *((case(set_of(**lacking)) for lacking in LACKING) if not end else ()),
    )


@cache
def statement(name: str, relation: str, end: str = "", late: bool = False) -> Table:
    """A difference of two cells over paired starts is at least .05, with Student's interval."""
    experiment = OTHERS[end][0]
    more_read, less_read = {
        "standard-non-robust": (("standard", "NR"), ("standard", "R")),
        "suppressed": (("standard", "NR"), ("adversarial", "NR")),
        "strengthened": (("adversarial", "R"), ("standard", "R")),
    }[name]

    def case(
        gaps: Sequence[float],
        verdict: str,
        value: float | None = None,
        base: float = 0.5,
        apart: float = APART,
    ) -> Case:
        # The cells that the statement does not name are far away on the other side.
        cells = dict.fromkeys(GOOD, tuple(0.0 if verdict == "HOLDS" else 1.0 for _ in gaps))
        cells[more_read], cells[less_read] = tuple(base + gap for gap in gaps), tuple(base for _ in gaps)
        run = features(cells, late, relation=relation, experiment=experiment, apart=apart)
        return Case(runs(run, len(gaps), end), verdict, value, 0.05)

    good = features(GOOD, late, relation=relation, experiment=experiment)
    unknown = features(GOOD, late, relation=relation, experiment=experiment, printed=False)
    nothing = Case(runs(unknown, end=end), "OUT_OF_SCOPE", 0.2, 0.05, "HOLDS")
    robust_standard = Case(runs(good, end=end, standard_robust_test=0.0), "HOLDS", 0.2, 0.05)
    return Table(
        holds=case((0.2, 0.3, 0.25), "HOLDS", 0.25),
        fails=case((-0.2, -0.3, -0.25), "FAILS", -0.25),
        at_bound=case((0.05 + 1e-9,) * 2, "HOLDS", 0.05 + 1e-9)
        if late
        else case((0.05, 0.05), "HOLDS", 0.05, base=0.0, apart=0.0),
        bad_seed=case((0.3, 0.3, -0.3), "INCONCLUSIVE", 0.1),
        nan=case((0.3, NAN, 0.3), "INCONCLUSIVE"),
        more=(Case(runs(good, end=end), "HOLDS", 0.2, 0.05), *scope(late, 0.05, relation, end))
        if end
        else (
            case((0.049, 0.049), "FAILS", 0.049),
            case((0.051, 0.051), "HOLDS", 0.051),
            case((0.04, 0.06, 0.05), "INCONCLUSIVE", 0.05),
            # Student's t for three starts is 4.30: .1 ± .0496 with these, and .1 ± .0507 with those.
            case((0.08, 0.12, 0.1), "HOLDS", 0.1),
            case((0.0795, 0.1205, 0.1), "INCONCLUSIVE", 0.1),
            Case(runs(good, end=end), "HOLDS", 0.2, 0.05),
            nothing,
            robust_standard,
            *scope(late, 0.05, relation, end),
        ),
    )


STATEMENTS = ("standard-non-robust", "suppressed", "strengthened")


@judged(
    "AT-T1",
    *(f"{name}-{relation}{end}" for name in STATEMENTS for relation in RELATIONS for end in OTHERS),
    *(f"{name}-other-start{end}" for name in STATEMENTS for end in INVERSIONS),
)
def at_the_end(name: str) -> Table:
    asked, relation, end = told(name)
    return statement(asked, relation, "" if end in INVERSIONS else end)


@judged("AT-F4", *(f"{name}-{relation}" for name in STATEMENTS for relation in RELATIONS))
def second_half(name: str) -> Table:
    asked, relation, _ = told(name)
    return statement(asked, relation, late=True)


@judged("AT-F4", *(f"standard-ordered-{relation}" for relation in RELATIONS))
def ordered(name: str) -> Table:
    """The smallest NR − R of standard training over epochs 4 to 6, by start, is at least 0."""
    relation = told(name)[1]

    def run(least: Sequence[float]) -> Run:
        cells = dict(GOOD) | dict.fromkeys(GOOD, tuple(0.5 for _ in least))
        found = features(cells, relation=relation)
        parts: Parts = {}
        for part in found.rows["part"].unique(maintain_order=True).to_list():
            parts[part] = found.part(part).drop("part").to_dicts()
        sign = -1.0 if least[0] >= 0 else 1.0
        for row in parts["curve"]:
            turn, start = divmod(row["seed"], len(least))
            gap = least[start] + (APART if turn else -APART)
            gaps = {1: sign, 2: sign, 3: sign, 4: gap + 0.5, 5: gap, 6: gap + 0.25}
            if (row["method"], row["relation"]) == ("standard", relation):
                row |= {"feature_R": 0.25, "feature_NR": 0.25 + gaps[row["step"]]}
            else:
                row |= {"feature_R": 0.5, "feature_NR": 0.5 + sign / 2}
        return made("image-features", parts, seeds=list(range(2 * len(least))))

    def case(least: Sequence[float], verdict: str, value: float | None = None) -> Case:
        return Case(runs(run(least), len(least)), verdict, value, 0.0)

    return Table(
        holds=case((0.25, 0.125, 0.1875), "HOLDS", 0.1875),
        fails=case((-0.25, -0.125, -0.1875), "FAILS", -0.1875),
        at_bound=case((0.0, 0.0), "HOLDS", 0.0),
        bad_seed=case((0.3, 0.3, -0.3), "INCONCLUSIVE", 0.1),
        nan=case((0.3, NAN, 0.3), "INCONCLUSIVE"),
        more=(
            case((-0.01, -0.01), "FAILS", -0.01),
            Case(
                runs(run((0.25, 0.125, 0.1875)), standard_clean_test=0.8),
                "OUT_OF_SCOPE",
                0.1875,
                0.0,
                "HOLDS",
            ),
        ),
    )


def _all_sides(case: Callable[..., Case]) -> Iterator[Case]:
    """A cell that is just near enough, or just not, below as above."""
    for cell, sign in product(GOOD, (1, -1)):
        yield case({cell: (sign * 0.04,) * 3}, "HOLDS", 0.04)
        yield case({cell: (sign * 0.06,) * 3}, "FAILS", 0.06)


@judged("AT-T1", *(f"table-{relation}{end}" for relation in RELATIONS for end in OTHERS))
def printed_table(name: str) -> Table:
    """Each of the four cells is within .05 of the printed one; the worst decides, with Student's interval."""
    _, relation, end = told(name)
    experiment, data = OTHERS[end]

    def case(
        off: Mapping[tuple[str, str], Sequence[float]],
        verdict: str,
        value: float | None = None,
        would_be: str | None = None,
        **more: Any,
    ) -> Case:
        cells = {
            cell: [
                TABLE[data][cell[0]][f"feature_{cell[1]}"] + gap for gap in off.get(cell, (0.01, 0.01, 0.01))
            ]
            for cell in GOOD
        }
        run = features(cells, relation=relation, experiment=experiment, **more)
        return Case(runs(run, end=end), verdict, value, 0.05, would_be)

    first, second, third, last = GOOD
    return Table(
        holds=case({}, "HOLDS", 0.01),
        fails=case({third: (0.2, 0.21, 0.19)}, "FAILS", 0.2),
        at_bound=case({first: (0.05 - 1e-9,) * 3}, "HOLDS", 0.05 - 1e-9),
        bad_seed=case({second: (0.0, 0.0, 0.3)}, "INCONCLUSIVE", 0.1),
        nan=case({first: (0.0, NAN, 0.0)}, "INCONCLUSIVE"),
        more=(
            *(case({cell: (0.06,) * 3}, "FAILS", 0.06) for cell in GOOD),
            *(_all_sides(case) if not end else ()),
            case({last: (0.0, 0.0, NAN)}, "INCONCLUSIVE"),
            case({last: (0.03, 0.04, 0.05)}, "INCONCLUSIVE", 0.04),
            case({last: (-0.05, -0.06, -0.07)}, "INCONCLUSIVE", 0.06),
            case({}, "OUT_OF_SCOPE", 0.01, "HOLDS", own=0.5),
            case({}, "OUT_OF_SCOPE", None, "INCONCLUSIVE", printed=False),
        ),
    )
