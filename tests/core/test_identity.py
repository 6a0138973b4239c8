"""A run's identity: what draws differently is another run, and stock settings keep the digests that stored
runs have."""

import typing
from pathlib import Path

import pytest
import torch
from pydantic import BaseModel

from featscope.core.errors import BadInput
from featscope.core.files import digest
from featscope.core.frozen import Value, identity_form
from featscope.core.settings import setting
from featscope.core.store import Folder, Store
from featscope.core.streams import stream
from featscope.experiments import spec as specs
from featscope.experiments.registry import experiment, experiments
from featscope.experiments.runner import run
from featscope.experiments.spec import Experiment, Request, Spec
from featscope.laws.patches import PatchBatch, PatchLaw


class Darker(PatchLaw, registered="darker-patches"):
    """The same fields, another sample."""

    def sample(self, n: int, rng: torch.Generator) -> PatchBatch:
        batch = super().sample(n, rng)
        return batch._replace(x=0.5 * batch.x)


class Scaled(PatchLaw, registered="scaled-patches"):
    scale: float = 2.0

    def sample(self, n: int, rng: torch.Generator) -> PatchBatch:
        batch = super().sample(n, rng)
        return batch._replace(x=self.scale * batch.x)


class Nameless(PatchLaw):
    pass


class Drawn(Spec):
    law: PatchLaw = PatchLaw()
    more: tuple[PatchLaw, ...] = ()


def draw(spec: Drawn, folder: Folder) -> dict[str, object]:
    total = float(spec.law.sample(5, stream(0, "data")).x.abs().sum())
    folder.add("drawn", [{"total": total}])
    return {"total": total}


PLAN = Experiment("drawn", "at", "a sample", Drawn, draw, {})


def name(spec: Spec, plan: Experiment = PLAN) -> str:
    return digest(specs.identity(plan, spec))


def test_a_law_with_another_sample_is_another_run_with_other_rows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stock = run(Request(PLAN, Drawn()), store)
    dark = run(Request(PLAN, Drawn(law=Darker())), store)
    assert dark.path != stock.path
    assert dark.summary["total"] == pytest.approx(stock.summary["total"] / 2)
    assert dark.identity["types"] == {"law": "darker-patches"}
    assert "types" not in stock.identity
    assert run(Request(PLAN, Drawn(law=Darker())), store).path == dark.path


def test_the_own_fields_of_a_subclass_count() -> None:
    usual, other = (specs.identity(PLAN, Drawn(law=Scaled(scale=s))) for s in (2.0, 3.0))
    assert digest(usual) != digest(other)
    assert other["spec"]["law"]["scale"] == 3.0


def test_parts_in_tuples_are_named_where_they_stand() -> None:
    spec = Drawn(more=(PatchLaw(), Darker()))
    assert specs.identity(PLAN, spec)["types"] == {"more.1": "darker-patches"}
    assert name(spec) not in {
        name(Drawn(more=(PatchLaw(), PatchLaw()))),
        name(Drawn(more=(Darker(), PatchLaw()))),
    }


def test_what_has_no_name_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r'class Nameless\(PatchLaw, registered="a-name"\)'):
        run(Request(PLAN, Drawn(law=Nameless())), Store(tmp_path))
    assert not any(tmp_path.iterdir())

    class Other(Drawn):
        pass

    with pytest.raises(BadInput, match="spec: Other"):
        run(Request(PLAN, Other()), Store(tmp_path))


def test_a_name_is_not_inherited_and_belongs_to_one_class() -> None:
    class Child(Darker):
        pass

    with pytest.raises(BadInput, match="Child"):
        name(Drawn(law=Child()))
    with pytest.raises(BadInput, match="another name"):

        class Second(PatchLaw, registered="darker-patches"):
            pass


def test_the_same_class_may_be_defined_again() -> None:
    def define() -> type[PatchLaw]:
        class Again(PatchLaw, registered="again-patches"):
            pass

        return Again

    assert name(Drawn(law=define()())) == name(Drawn(law=define()()))


def test_a_stock_experiment_takes_a_named_law_as_another_run() -> None:
    plan = experiment("patch-fig3")
    stock = specs.resolve(plan, "quick")
    assert name(stock.replace(law=Darker(**dict(stock.law))), plan) != name(stock, plan)


#: digests of runs that are stored somewhere; a change makes every one of them be run again, so it must be
#: meant
STOCK = {
    ("patch-fig3", "quick"): "5d4b5387bba73123",
    ("patch-fig3", "cpu"): "e5ccb7be0d6bb7e2",
    ("patch-recursion", "cpu"): "ae85809bda5c28a5",
    ("clusters-fig2", "cpu"): "662a081c782bfc49",
    ("clusters-fig3", "quick"): "c45a9bfa299f37cb",
    ("signal-stages", "quick"): "94ba18b40d95ac5c",
    ("signal-stages", "cpu"): "3c5fa54e2f2317e1",
    ("image-network", "cpu"): "d9a61bd3cb3c9b41",
    ("image-landscape-cifar10", "cpu"): "0820798b92655ac8",
}


@pytest.mark.parametrize(("plan", "profile"), STOCK)
def test_stock_settings_keep_their_digests(plan: str, profile: str) -> None:
    assert name(specs.resolve(experiment(plan), profile), experiment(plan)) == STOCK[plan, profile]


def _below(cls: type) -> list[type]:
    return [c for child in cls.__subclasses__() for c in (child, *_below(child))]


def _declared(model: type[BaseModel]) -> set[type]:
    def inside(annotation: object) -> set[type]:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return {annotation} | _declared(annotation)
        return {c for option in typing.get_args(annotation) for c in inside(option)}

    return {c for info in model.model_fields.values() for c in inside(info.annotation)}


def test_package_types_that_can_stand_in_for_another_have_names() -> None:
    places = {plan.spec for plan in experiments().values()} | {
        c for plan in experiments().values() for c in _declared(plan.spec)
    }
    stand_ins = [
        c
        for place in places
        for c in _below(place)
        if c.__module__.startswith("featscope.") and c not in (Value, Spec)
    ]
    assert len(stand_ins) >= 2
    assert [c.__name__ for c in stand_ins if c.registered_name is None] == []


def test_a_setting_that_came_later_is_in_the_identity_only_where_it_is_used() -> None:
    """Runs stored before the setting are still found; another value, also deep inside a spec, is another run."""

    class Inner(Value):
        a: int = setting(1, "an old one")
        b: int | None = setting(None, "a later one", later=True)

    class Before(Spec):
        inner: tuple[dict[str, int], ...] = ({"a": 1}, {"a": 2})

    class After(Spec):
        inner: tuple[Inner, ...] = (Inner(), Inner(a=2))
        flag: bool = setting(False, "a later one", later=True)

    old, new = identity_form(Before()), identity_form(After())
    assert new == old
    assert identity_form(After(flag=True)) == old | {"flag": True}
    moved = identity_form(After(inner=(Inner(), Inner(a=2, b=0))))
    assert moved["inner"] == [{"a": 1}, {"a": 2, "b": 0}]
    assert After.model_validate(old) == After()


def test_a_later_setting_of_a_subclass_is_left_out_at_the_default_of_the_subclass() -> None:
    class Base(Value):
        fast: bool = setting(False, "a later one", later=True)

    class Child(Base):
        fast: bool = True

    assert identity_form(Child()) == {}
    assert identity_form(Child(fast=False)) == {"fast": False}


def test_a_value_s_class_takes_no_keyword_that_nobody_reads() -> None:
    with pytest.raises(TypeError):
        type("Odd", (Value,), {}, nonsense=1)
