"""What an experiment writes is what it declares: every part, every column, in the quick profile; and its figures can be
read."""

from pathlib import Path

import pytest
from pictures import checked_figures

from featscope.core.store import CONDITIONS, Store
from featscope.experiments.registry import experiments
from featscope.experiments.run import Run
from featscope.experiments.runner import run
from featscope.experiments.spec import request

SYNTHETIC = [name for name, plan in experiments().items() if not plan.needs_data]


@pytest.fixture(scope="session")
def quick_runs(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("quick-runs"))


def compare_with_declared(done: Run) -> None:
    """Parts and columns of a run against its experiment's declaration; labels of parts and `part` itself go
    without."""
    declared = experiments()[done.experiment].columns
    for name in sorted(set(done.rows["part"].to_list()) - {CONDITIONS}):
        assert name in declared, f"part {name} is not declared"
        written = {column for column in done.part(name).columns if column != "part"}
        known = set(declared[name].all())
        labels = {
            piece.partition("=")[0]
            for key in done.tensors
            for piece in key.partition("[")[2].partition("]")[0].split(",")
            if piece
        }
        assert written - labels <= known, f"{name}: {sorted(written - labels - known)} not declared"


@pytest.mark.parametrize("name", SYNTHETIC)
def test_rows_are_as_declared_and_figures_as_pictures_must_be(
    name: str, quick_runs: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run(request(experiments()[name], "quick"), quick_runs)
    compare_with_declared(done)
    checked_figures(done, capfd)


#: experiments on real images are compared where their tests run them, on small data sets
IMAGES = [name for name, plan in experiments().items() if plan.needs_data]


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
