"""Conditions of a run's settings on their way to the ledger, and what labels do to parts."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from featscope.claims.claim import Claim, Finding, Need, Reading, Verdict
from featscope.claims.scope import hypotheses, settled
from featscope.core.columns import Columns, column
from featscope.core.conditions import Condition
from featscope.core.progress import Silent
from featscope.core.store import Folder, Store
from featscope.experiments.run import Run
from featscope.laws.clusters import ClusterLaw, ClusterSetting

WIDE = Condition("w", "d ≥ 10", 4.0, 10.0, False)
DENSE = Condition("n", "n ≥ 3", 5.0, 3.0, True)
Write = Callable[[Folder], None]


def written(root: Path, write: Write) -> Run:
    """A finished run of what ``write`` puts into its folder."""
    with Store(root).write({"experiment": "made-up", "spec": {}}, Silent()) as folder:
        write(folder)
        return Run(folder.finish({}, {}).path)


FAILING = Finding(Verdict.FAILS, 1.0, 0.0)
READING = Reading("r", "t", {"run": Need("packing")}, lambda runs: FAILING)
CLAIM = Claim("X", "at", "Theorem 1", "It is so.", (), (READING,))


def unmet_conditions(run: Run) -> list[str]:
    return [str(found) for found in hypotheses(run, READING) if not found.met]


def test_what_is_not_met_is_told_with_its_numbers(tmp_path: Path) -> None:
    run = written(tmp_path, lambda folder: folder.conditions([WIDE, DENSE]))
    assert unmet_conditions(run) == ["d ≥ 10: 4 against 10"]


def test_of_several_settings_the_first_is_told_and_the_others_are_counted(tmp_path: Path) -> None:
    def write(folder: Folder) -> None:
        for at, d in enumerate((12.0, 4.0, 2.0)):
            folder.conditions([Condition("w", "d ≥ 10", d, 10.0, d >= 10), DENSE], at=at)

    assert unmet_conditions(written(tmp_path, write)) == ["d ≥ 10: 4 against 10 (2 of 3 settings)"]


def test_a_run_without_conditions_has_none_unmet(tmp_path: Path) -> None:
    assert unmet_conditions(written(tmp_path, lambda folder: folder.add("p", [{"a": 1}]))) == []


@pytest.mark.parametrize(
    ("found", "verdict"), [([WIDE, DENSE], Verdict.OUT_OF_SCOPE), ([DENSE], Verdict.FAILS)]
)
def test_a_finding_is_in_scope_where_everything_is_met(
    found: list[Condition], verdict: Verdict, tmp_path: Path
) -> None:
    run = written(tmp_path, lambda folder: folder.conditions(found))
    judged = settled(CLAIM, READING, {"run": run})
    assert judged.verdict == verdict
    assert judged.evidence.get("would_be", "FAILS") == "FAILS"


def test_without_a_training_only_the_law_is_checked() -> None:
    law, setting = ClusterLaw(k=4, d=20, positive=1), ClusterSetting(50, 2, 0.1, 0.1, 0.1)
    alone = law.check()
    assert [c.name for c in alone] == ["A3.2", "D3.1", "A3.3"]
    assert law.check(setting)[:3] == alone
    assert {c.name.partition(".")[0] for c in law.check(setting)[3:]} == {"A4"}


def test_parts_of_one_name_are_told_apart_by_their_labels(tmp_path: Path) -> None:
    made: list[int] = []

    def make(seed: int) -> tuple[list[dict[str, int]], dict[str, torch.Tensor]]:
        made.append(seed)
        return [{"a": 10 + seed}], {"t": torch.tensor([seed])}

    def write(folder: Folder) -> None:
        for seed in (0, 1, 0):
            assert folder.once("p", lambda seed=seed: make(seed), seed=seed, at=1e-5).rows == [
                {"a": 10 + seed}
            ]  # type: ignore[misc]

    run = written(tmp_path, write)
    assert made == [0, 1]
    assert run.part("p", seed=1)["a"].to_list() == [11]
    assert run.tensor("p", "t", seed=1, at=1e-5).tolist() == [1]


def test_a_column_can_be_copied() -> None:
    class Some(Columns):
        """Rows."""

        u = column("a number")

    for again in (copy.deepcopy(Some.u), pickle.loads(pickle.dumps(Some.u))):
        assert (again, again.meaning) == ("u", "a number")


def test_parts_follow_their_labels_as_numbers(tmp_path: Path) -> None:
    def write(folder: Folder) -> None:
        for seed, at in ((10, 0.5), (2, 1e-5), (2, 0.5), (1, 16.0)):
            folder.add("p", [{"a": seed}], seed=seed, at=at)
        for name in ("b", "a"):
            folder.add("q", [{"a": 0}], net=name)

    run = written(tmp_path, write)
    assert run.part("p").select("seed", "at").rows() == [(1, 16.0), (2, 1e-5), (2, 0.5), (10, 0.5)]
    assert run.part("q")["net"].to_list() == ["a", "b"]
