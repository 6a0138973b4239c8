"""Where a number lies among the reference networks, on a made-up table."""

import pytest

from featscope.probe import diagnosis, known
from featscope.probe.known import CommonGround, position
from featscope.probe.run import Probe

HERE = CommonGround("mnist", "Linf", 0.3)


def network(name: str, low: float, high: float, data: str = "mnist", eps: float = 0.3) -> dict[str, object]:
    return {
        "name": name, "data": data, "norm": "Linf", "eps": eps, "averaging": {"low": low, "high": high}
    }  # fmt: skip


ROWS = (network("A", 0.1, 0.3), network("B", 0.7, 0.9), network("C", 0.0, 1.0, "cifar10", 8 / 255))


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (0.15, 0.2, "like A; below B"),
        (0.25, 0.5, "like A; below B"),
        (0.3, 0.7, "like A and B"),
        (0.4, 0.5, "above A; below B"),
        (0.95, 1.0, "above A and B"),
        (-0.1, 0.05, "below A and B"),
    ],
)
def test_a_number_is_placed_at_between_and_beyond(low: float, high: float, told: str) -> None:
    assert str(position(ROWS, HERE, "averaging", low, high)) == told


def test_equal_exact_numbers_are_alike() -> None:
    rows = (network("A", 1.0, 1.0), network("B", 1.0, 1.0), network("D", 0.9, 0.9))
    found = position(rows, HERE, "averaging", 1.0, 1.0)
    assert found.as_json() == {"like": ["A", "B"], "above": ["D"], "below": [], "not_comparable": None}


@pytest.mark.parametrize(
    "other",
    [
        CommonGround("mnist", "L2", 0.3),
        CommonGround("mnist", "Linf", 0.2),
        CommonGround("cifar10", "Linf", 0.3),
        CommonGround(None, "Linf", 0.3),
    ],
)
def test_another_setting_is_not_compared(other: CommonGround) -> None:
    found = position(ROWS, other, "averaging", 0.15, 0.2)
    assert (found.like, found.over, found.under) == ((), (), ())
    assert str(found).startswith("not comparable: the table has mnist at Linf 0.3, cifar10 at Linf 0.0314")
    assert str(found).endswith(f"this is {other}")


def test_what_the_table_lacks_is_said() -> None:
    assert "not measured" in str(position(ROWS, HERE, "memorising", 0.0, 0.1))
    assert "no network" in str(position((), HERE, "averaging", 0.0, 0.1))


def test_the_diagnosis_and_its_lines_say_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "references", lambda: ROWS)
    share = {"value": 0.5, "low": 0.4, "high": 0.6}
    entries = {"averaging": {"answer": "does not", "sentence": "it does not", "cosine": share}}
    document = {
        "preflight": {"clean": share}, "robustness": {"verdict": "v", "findings": []}
    }  # fmt: skip
    here = diagnosis.diagnose(entries, HERE)
    assert here["references"] == ["A", "B"]
    assert "it does not; above A; below B" in Probe({**document, "diagnosis": here}).lines()
    there = diagnosis.diagnose(entries, CommonGround("mnist", "L2", 0.3))
    lines = Probe({**document, "diagnosis": there}).lines()
    assert there["references"] == []
    assert "it does not" in lines
    assert lines[-1].startswith("not comparable: ")
