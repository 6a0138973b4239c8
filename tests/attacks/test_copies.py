"""What a fast copy found, counted on the network: every case by hand, on networks of one number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from featscope.attacks.copies import DROPPED, SAMPLE, Fallen, missed_by_copy, recount, search
from featscope.core.linearise import Model

INF = math.inf


def at(edge: float) -> Model:
    """Class 0 below ``edge``, class 1 from there on."""

    def net(x: Tensor) -> Tensor:
        f = x[:, 0] - edge
        return torch.stack([-f, f], -1)

    return net


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def zeros(n: int) -> Tensor:
    return torch.zeros(n, dtype=torch.long)


@pytest.mark.parametrize("batch", [1, 2, 500])
def test_each_example_is_judged_by_the_network(batch: int) -> None:
    """Right and fooled; right and not, though the copy says so; right, though the copy says wrong at once;
    wrong, though the copy says right; wrong; right and not fooled; fooled exactly at a tie."""
    x = column(0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.5)
    delta = column(1.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.5)
    copy_says = torch.tensor([0.3, 0.3, 0.0, INF, 0.0, INF, 0.3])
    first = torch.tensor([0.4, INF, 0.0, INF, 0.0, INF, 0.4])
    found, differs = recount(at(1.0), Fallen(copy_says, delta, {"first": first}), x, zeros(7), batch)
    assert differs.tolist() == [False, True, True, False, False, False, False]
    assert found.fooled_at.tolist() == pytest.approx([0.3, INF, INF, 0.0, 0.0, INF, 0.3])
    assert found.after["first"].tolist() == pytest.approx([0.4, INF, INF, 0.0, 0.0, INF, 0.4])
    assert found.delta is delta


def test_what_is_smaller_is_taken_over_with_its_perturbation_and_after_every_attack() -> None:
    mine = Fallen(
        torch.tensor([0.3, 0.2, INF, 0.1]),
        column(1.0, 2.0, 3.0, 4.0),
        {"a": torch.tensor([0.4, INF, INF, 0.1]), "b": torch.tensor([0.3, 0.2, INF, 0.1])},
    )
    other = Fallen(
        torch.tensor([0.1, 0.2, 0.5]), column(-1.0, -2.0, -3.0), {"a": torch.tensor([0.2, 0.3, INF])}
    )
    mine.put(torch.tensor([0, 1, 2]), other)
    assert mine.fooled_at.tolist() == pytest.approx([0.1, 0.2, 0.5, 0.1])
    assert mine.delta[:, 0].tolist() == [-1.0, 2.0, -3.0, 4.0]
    assert mine.after["a"].tolist() == pytest.approx([0.2, 0.3, INF, 0.1])
    assert mine.after["b"].tolist() == pytest.approx([0.1, 0.2, 0.5, 0.1])


def looking(radius: dict[str, float], asked: list[tuple[str, str, int]], network: Model) -> object:
    """A search that fools every example at a radius that depends on what is searched, moving it by 2."""

    def look(model: Model, chosen: Tensor, name: str) -> Fallen:
        who = "network" if model is network else "copy"
        asked.append((who, name, len(chosen)))
        return Fallen(torch.full((len(chosen),), radius[who]), torch.full((len(chosen), 1), 2.0).double())

    return look


def test_a_network_that_is_its_own_copy_is_searched_once() -> None:
    asked: list[tuple[str, str, int]] = []
    net = at(1.0)
    found, told = search(
        net, net, torch.zeros(3, 1).double(), zeros(3), looking({"network": 0.2}, asked, net)
    )
    assert asked == [("network", "first", 3)]
    assert told == []
    assert found.fooled_at.tolist() == pytest.approx([0.2] * 3)


@pytest.mark.parametrize(
    ("own", "theirs", "dropped"), [(0.1, 0.2, True), (0.2, 0.2, False), (0.2, 0.1, False)]
)
def test_a_copy_is_dropped_where_the_network_falls_earlier_and_all_is_searched_again(
    own: float, theirs: float, dropped: bool
) -> None:
    asked: list[tuple[str, str, int]] = []
    net, copy, n = at(1.0), at(1.0), 40
    x = torch.zeros(n, 1).double()
    x[0] = 5.0  # wrong as it is: not searched again
    found, told = search(net, copy, x, zeros(n), looking({"network": own, "copy": theirs}, asked, net))
    sample = [("copy", "first", n), ("network", "sample", SAMPLE), ("copy", "sample", SAMPLE)]
    assert asked == sample + ([("network", "network", n - 1)] if dropped else [])
    assert told == ([DROPPED] if dropped else [])
    assert found.fooled_at[0] == 0
    if dropped:
        assert found.fooled_at[1:].tolist() == pytest.approx([own] * (n - 1))
    else:
        assert found.fooled_at[1:].max().item() == pytest.approx(theirs)


def test_what_the_copy_judges_differently_is_searched_on_the_network() -> None:
    """The copy's boundary is at 1, the network's at 3: a move by 2 fools the copy alone."""
    asked: list[tuple[str, str, int]] = []
    net, copy = at(3.0), at(1.0)
    x = torch.zeros(5, 1).double()
    search(net, copy, x, zeros(5), looking({"network": INF, "copy": 0.2}, asked, net))
    assert asked[:2] == [("copy", "first", 5), ("network", "again", 5)]


def test_a_copy_that_breaks_on_another_number_of_examples_is_not_used() -> None:
    asked: list[tuple[str, str, int]] = []
    net = at(1.0)

    def broken(x: Tensor) -> Tensor:
        raise RuntimeError("shape")

    def look(model: Model, chosen: Tensor, name: str) -> Fallen:
        if model is broken:
            model(chosen)
        return looking({"network": 0.2}, asked, net)(model, chosen, name)  # type: ignore[operator,no-any-return]

    _, told = search(net, broken, torch.zeros(3, 1).double(), zeros(3), look)
    assert asked == [("network", "first", 3)]
    assert told == []


def test_the_sample_is_of_those_that_fell_last_and_a_probe_of_its_own_searches_it() -> None:
    net, copy = at(1.0), at(1.0)
    x = torch.zeros(6, 1).double()
    fell = torch.tensor([0.0, 0.1, INF, 0.1, INF, 0.3])
    seen: list[list[int]] = []

    def look(model: Model, chosen: Tensor, name: str) -> Fallen:
        seen.append(chosen.tolist())
        return Fallen(torch.full((len(chosen),), INF), torch.zeros(len(chosen), 1).double())

    (chosen, _), more = missed_by_copy(net, copy, x, zeros(6), fell, look)
    assert chosen.tolist() == [2, 4]
    assert seen == [[2, 4], [2, 4]]
    assert not more
    (nobody, nothing), more = missed_by_copy(net, copy, x, zeros(6), torch.zeros(6), look)
    assert (len(nobody), len(nothing.fooled_at), more) == (0, 0, False)
    asked: list[tuple[str, str, int]] = []
    probed: list[tuple[str, str, int]] = []
    both = {"network": INF, "copy": INF}
    search(net, copy, x, zeros(6), looking(both, asked, net), looking(both, probed, net))
    assert asked == [("copy", "first", 6)]
    assert probed == [("network", "sample", 6), ("copy", "sample", 6)]


def test_what_the_sample_shows_is_taken_over_although_the_copy_stays() -> None:
    """Of three examples the network falls earlier at one, the copy at two: nothing is dropped, and all count."""
    net, copy = at(1.0), at(1.0)
    own, theirs = torch.tensor([0.1, INF, INF]), torch.tensor([INF, 0.2, 0.2])

    def look(model: Model, chosen: Tensor, name: str) -> Fallen:
        radius = torch.full((3,), INF) if name == "first" else own if model is net else theirs
        return Fallen(radius[chosen], torch.full((len(chosen), 1), 2.0).double())

    found, told = search(net, copy, torch.zeros(3, 1).double(), zeros(3), look)
    assert told == []
    assert found.fooled_at.tolist() == pytest.approx([0.1, INF, INF])
    assert float(found.delta[0]) == 2.0
