"""The table of reference networks that ships with the package: it is read, its rows have the schema, and a
probe of the same data, norm and radius is placed among them."""

import math
from typing import Any

import pytest

from featscope.probe import known
from featscope.probe.diagnosis import ASKED, diagnose
from featscope.probe.known import CommonGround

PARTS = [part for part, *_ in ASKED]
ROWS = list(known.references())
NAMES = [row["name"] for row in ROWS]


def share(value: Any) -> bool:
    return isinstance(value, dict) and 0 <= value["low"] <= value["value"] <= value["high"] <= 1


def test_it_ships_with_a_standard_and_an_adversarial_network() -> None:
    assert {row["training"] for row in ROWS} == {"standard", "adversarial"}
    assert {row["data"] for row in ROWS} == {"mnist", "cifar10"}
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_row_has_the_schema(row: dict[str, Any]) -> None:
    assert (row["norm"], row["data"]) in {("Linf", "mnist"), ("Linf", "cifar10")}
    assert row["eps"] == pytest.approx({"mnist": 0.3, "cifar10": 8 / 255}[row["data"]])
    assert share(row["clean"])
    assert share(row["robust"])
    assert row["robust"]["value"] <= row["clean"]["high"]
    assert isinstance(row["established"], bool)
    for part in PARTS:
        found = row[part]
        assert found is None or (found["low"] <= found["value"] <= found["high"] and found["answer"])
        assert found is None or all(math.isfinite(found[key]) for key in ("low", "value", "high"))
    made = row["made"]
    assert made["experiment"] == "image-network"
    assert len(made["network_sha256"]) == 64
    assert made["training"]["method"] == row["training"]


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_network_is_like_itself(row: dict[str, Any]) -> None:
    setting = CommonGround(row["data"], row["norm"], row["eps"])
    for part in PARTS:
        if row[part] is not None:
            found = known.position(ROWS, setting, part, row[part]["low"], row[part]["high"])
            assert row["name"] in found.like


def test_a_diagnosis_names_the_networks_of_its_setting() -> None:
    entries = {"averaging": {"answer": "a", "sentence": "s", "cosine": {"value": 2, "low": 2, "high": 2}}}
    for data, eps in (("mnist", 0.3), ("cifar10", 8 / 255)):
        found = diagnose(entries, CommonGround(data, "Linf", eps))
        same = [row["name"] for row in ROWS if row["data"] == data]
        assert found["references"] == same
        averaging = next(one for one in found["mechanisms"] if one["part"] == "averaging")
        # A cosine above 1 is above all of them.
        measured = [row["name"] for row in ROWS if row["data"] == data and row["averaging"] is not None]
        assert averaging["position"]["above"] == measured
