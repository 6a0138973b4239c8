"""What an experiment writes is what it declares: every part, every column, both ways, in the quick profile; and its
figures can be read."""

from pathlib import Path

import pytest
from pictures import checked_figures

from featscope.core.errors import BadInput
from featscope.core.store import CONDITIONS, Store
from featscope.experiments.packing import Packing, illustration_rows, law_rows
from featscope.experiments.registry import experiments
from featscope.experiments.run import Run
from featscope.experiments.runner import run
from featscope.experiments.spec import request
from featscope.papers.at.patch_race import RACES, RaceRows
from featscope.papers.cgro.built import BuiltCgro, accuracy_rows
from featscope.sweeps.phases import PHASE_CELLS, PHASE_DISTANCES, PHASE_EDGES

SYNTHETIC = [name for name, plan in experiments().items() if plan.data is None]

#: parts of a phase diagram that are taken over all seeds
PHASES = ("phase-clusters", "phase-patch", "phase-signal")
OVER_ALL_SEEDS = {(name, part) for name in PHASES for part in (PHASE_CELLS, PHASE_EDGES, PHASE_DISTANCES)}

#: parts in which nothing is drawn, so that they have no seed: formulas, and recursions of given constants
WITHOUT_A_DRAW = {
    ("appendix-lemmas", "product"),
    ("appendix-lemmas", "square"),
    ("known-density", "constants"),
    ("known-density", "terms"),
    ("lower-bound", "exact"),
    ("lower-bound", "growth"),
    ("lower-bound", "listed"),
    ("lower-bound", "shattered"),
    ("patch-scaling", "maxima"),
    ("patch-scaling", "power"),
    ("clusters-properties", "stated"),
    ("clusters-assumption", "proof"),
    ("signal-lemmas", "lemmas"),
    ("bounds", "table"),
    ("bounds", "growth"),
    ("bounds", "held"),
    ("bounds", "training"),
    ("clusters-elementary", "openings"),
    ("clusters-elementary", "tails"),
    ("clusters-elementary", "activation"),
    ("clusters-elementary", "derivatives"),
    ("clusters-elementary", "softmax"),
    ("clusters-plane", "centres"),
    ("packing", "count"),
}


#: what a quick run leaves empty: without an attack nothing is cancelled
EMPTY_IN_QUICK = {"patch-race": {RACES: {str(RaceRows.T_cancelled)}}}


@pytest.fixture(scope="session")
def quick_runs(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("quick-runs"))


def compare_with_declared(done: Run, unwritten: dict[str, set[str]] | None = None) -> None:
    """Parts and columns of a run are those of its experiment's declaration, but for columns that this very
    run leaves empty."""
    declared = experiments()[done.experiment].columns
    assert set(done.rows["part"].to_list()) - {CONDITIONS} == set(declared)
    for name, columns in declared.items():
        written = set(done.part(name).columns) - {"part"}
        empty = (unwritten or {}).get(name, set())
        assert written == set(columns.all()) - empty, f"{name}: {sorted(written ^ set(columns.all()))}"


@pytest.mark.parametrize("name", SYNTHETIC)
def test_rows_are_as_declared_and_figures_as_pictures_must_be(
    name: str, quick_runs: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run(request(experiments()[name], "quick"), quick_runs)
    compare_with_declared(done, EMPTY_IN_QUICK.get(name))
    checked_figures(done, capfd)


def test_a_race_under_attack_writes_every_declared_column(tmp_path: Path) -> None:
    attacked = {"training": "features-only"}
    compare_with_declared(run(request(experiments()["patch-race"], "quick", attacked), Store(tmp_path)))


#: experiments on real images are compared where their tests run them, on small data sets
IMAGES = [name for name, plan in experiments().items() if plan.data is not None]


@pytest.mark.parametrize("name", IMAGES)
def test_image_experiments_declare_their_rows(name: str) -> None:
    assert experiments()[name].columns


@pytest.mark.usefixtures("small_mnist")
def test_rows_of_an_image_training_are_as_declared(tmp_path: Path) -> None:
    small = {
        "train": 50,
        "test": 12,
        "attacked": 6,
        "net.width": 2,
        "training.epochs": 1,
        "training.batch_size": 8,
    }
    compare_with_declared(run(request(experiments()["image-network"], "quick", small), Store(tmp_path)))


@pytest.mark.parametrize("name", sorted(experiments()))
def test_every_column_has_a_meaning(name: str) -> None:
    for part, columns in experiments()[name].columns.items():
        assert columns.__doc__, f"{part}: {columns.__name__} says nothing of its rows"
        for column, told in columns.all().items():
            assert len(told.meaning) > 2, f"{part}: {column} has no meaning"


def test_what_is_drawn_has_a_column_for_its_seed() -> None:
    parts = {
        (name, part): kind for name, plan in experiments().items() for part, kind in plan.columns.items()
    }
    without = {place for place, kind in parts.items() if "seed" not in kind.all()}
    assert without == WITHOUT_A_DRAW | OVER_ALL_SEEDS


def test_every_seed_has_rows_and_they_are_those_of_the_seed_alone() -> None:
    packing = Packing(listed=(2, 3), train_dimensions=(2,), widths=(2, 4), train_steps=20)
    built = BuiltCgro(dimensions=(4,), samples=(5,), accuracy_shares=(0.5, 0.9))
    both, second = packing.replace(seeds=(0, 7)), packing.replace(seeds=(7,))
    for rows in (law_rows, illustration_rows):
        assert {row["seed"] for row in rows(both)} == {0, 7}
        assert [row for row in rows(both) if row["seed"] == 7] == rows(second)
    found = accuracy_rows(built.replace(seeds=(0, 7)))
    assert [row for row in found if row["seed"] == 7] == accuracy_rows(built.replace(seeds=(7,)))
    assert {row["seed"] for row in found} == {0, 7}


@pytest.mark.parametrize("name", ["clusters-built", "image-separation"])
def test_an_experiment_that_draws_once_refuses_several_seeds(name: str) -> None:
    with pytest.raises(BadInput, match=r"by one seed: seeds=\[0, 1\]; give one seed"):
        request(experiments()[name], "quick", {"seeds": [0, 1]})
