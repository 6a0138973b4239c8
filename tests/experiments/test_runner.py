"""What an experiment needs is made first, once, handed over, and written down."""

import copy
import pickle
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.experiments import runner
from featscope.experiments.runner import ordered, run, run_all
from featscope.experiments.spec import Experiment, Request, Spec, restore
from featscope.laws.patches import PatchLaw

MADE: list[str] = []


def _child(spec, folder):
    MADE.append("child")
    folder.add("drawn", [{"x": 2.0}], seed=0)
    return {"x": 2.0}


def _parent(spec, folder):
    MADE.append("parent")
    return {"twice": 2 * folder.needed["half"].summary["x"]}


CHILD = Experiment("child", "at", "x", Spec, _child, {})
PARENT = Experiment(
    "parent", "at", "x", Spec, _parent, {}, needs=lambda spec: {"half": Request(CHILD, Spec())}
)
BOTH = Request(PARENT, Spec())


@pytest.fixture(autouse=True)
def _forget():
    MADE.clear()


def test_children_come_first_and_stand_in_the_manifest(tmp_path: Path) -> None:
    done = run(BOTH, Store(tmp_path))
    assert MADE == ["child", "parent"]
    assert done.summary == {"twice": 4.0}
    child = run(Request(CHILD, Spec()), Store(tmp_path))
    assert done.manifest["needs"] == {"half": child.path.name}
    assert child.part("drawn", seed=0)["x"].to_list() == [2.0]
    assert child.part("drawn", arm="none").height == 0
    assert MADE == ["child", "parent"]


def test_force_makes_the_run_again_and_keeps_what_it_needs(tmp_path: Path) -> None:
    run(BOTH, Store(tmp_path))
    run(BOTH, Store(tmp_path), force=True)
    assert MADE == ["child", "parent", "parent"]


def test_all_are_made_once_and_a_finished_parent_needs_nothing(tmp_path: Path) -> None:
    told = []
    run_all(
        [BOTH, Request(CHILD, Spec())],
        Store(tmp_path),
        on_run=lambda done: told.append(done.path.parent.name),
    )
    assert MADE == told == ["child", "parent"]
    assert [node.request.experiment.name for node in ordered([BOTH], Store(tmp_path)).values()] == ["parent"]
    assert [node.request.experiment.name for node in ordered([BOTH]).values()] == ["child", "parent"]


def test_experiments_that_need_each_other_are_refused() -> None:
    plans = {}
    plans["a"] = Experiment(
        "a", "at", "x", Spec, _child, {}, needs=lambda spec: {"b": Request(plans["b"], Spec())}
    )
    plans["b"] = Experiment(
        "b", "at", "x", Spec, _child, {}, needs=lambda spec: {"a": Request(plans["a"], Spec())}
    )
    with pytest.raises(BadInput, match="need each other"):
        ordered([Request(plans["a"], Spec())])


class Lit(PatchLaw, registered="lit-patches"):
    lamp: float = 1.0


class Several(Spec):
    laws: tuple[PatchLaw, ...] = ()


def test_settings_come_back_with_the_types_they_had() -> None:
    plan = Experiment("several", "at", "x", Several, _child, {})
    spec = Several(laws=(PatchLaw(), Lit(lamp=3.0)))
    assert restore(plan, Request(plan, spec).identity) == spec


@pytest.mark.parametrize("label", ["a/b", "a,b", "a=b", "[a]"])
def test_labels_that_would_lose_their_part_are_refused(label: str, tmp_path: Path) -> None:
    plan = Experiment("bad", "at", "x", Spec, lambda spec, folder: folder.add("p", [], pair=label) or {}, {})
    with pytest.raises(BadInput, match="go without"):
        run(Request(plan, Spec()), Store(tmp_path))


def test_bad_input_keeps_its_type_on_the_way_from_a_worker() -> None:
    error = BadInput("a rule", "a value", "a remedy")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is BadInput
        assert str(again) == str(error)


def test_the_longest_run_is_begun_first(tmp_path: Path) -> None:
    def named(name: str, takes: str) -> Request:
        def note(spec, folder):
            MADE.append(name)
            return {}

        return Request(Experiment(name, "at", "x", Spec, note, {"cpu": takes}), Spec())

    run_all([named("short", "3 s"), named("long", "2 min"), named("middle", "20 s")], Store(tmp_path))
    assert MADE == ["long", "middle", "short"]


def test_a_run_is_told_of_when_the_next_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is told draws figures: no worker waits for it."""
    events: list[str] = []
    named = {name: Experiment(name, "at", "x", Spec, lambda spec, folder: {}, {}) for name in ("a", "b")}
    monkeypatch.setattr(runner, "experiment", named.__getitem__)

    class Pool:
        """Does each job at once."""

        def submit(self, job: Any, name: str, *arguments: Any) -> Future[Any]:
            events.append(f"begun {name}")
            done: Future[Any] = Future()
            done.set_result(job(name, *arguments))
            return done

    requests = [Request(plan, Spec()) for plan in named.values()]
    work = runner._Work(
        ordered(requests),
        Store(tmp_path),
        runner.Silent(),
        lambda made: events.append(f"told {made.experiment}"),
    )
    runner._drain(Pool(), 1, work)  # type: ignore[arg-type]
    assert events == ["begun a", "begun b", "told a", "told b"]
