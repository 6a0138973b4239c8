"""What a line of the ledger shows beside its verdict is read from the rows it names."""

from typing import Any

import polars as pl
import pytest
from judging import TABLES, Table, finding

import judge_rows_at_images  # noqa: F401  isort: skip
import judge_rows_at_law  # noqa: F401  isort: skip
import judge_rows_at_recursion  # noqa: F401  isort: skip
import judge_rows_fa_figures  # noqa: F401  isort: skip


def shown(claim: str, reading: str) -> tuple[Any, Any]:
    """The run that must hold, and the evidence shown for it."""
    entry = TABLES[claim, reading]()
    assert isinstance(entry, Table)
    runs = entry.holds.runs
    return runs["run"], finding(claim, reading, runs).evidence


def test_a_matching_is_shown_with_its_counts() -> None:
    run, evidence = shown("AT-A2.3", "any-classifier")
    assert evidence["pairs"] == len(run.tensor("matching", "left"))
    assert evidence["points"] == len(run.tensor("matching", "y"))
    assert evidence["share_of_intersecting_pairs"] == run.part("matching")["intersecting_pairs"][0]
    assert "re-verified" in evidence["certificate"]


def test_a_curve_is_shown_over_gamma() -> None:
    run, evidence = shown("AT-P3.2", "own-logit")
    rows = run.part("gamma").filter(pl.col("feature") == "robust")
    assert evidence["curve"]["gamma"] == sorted(set(rows["gamma"].to_list()))
    assert set(evidence["curve"]) == {"gamma", "own-logit"}


@pytest.mark.parametrize(("claim", "arm"), [("AT-L5.1", "standard"), ("AT-LD.18", "adversarial")])
def test_routes_are_shown_with_the_steps_they_were_compared_over(claim: str, arm: str) -> None:
    name = next(name for known, name in TABLES if known == claim)
    run, evidence = shown(claim, name)
    rows = run.part("dynamics", arm=arm)
    assert evidence["steps"] == rows["step"].max() > rows["step"].min()
    assert evidence["runs"] == rows["seed"].n_unique()


def test_reconstructed_sets_are_shown_with_their_own_errors() -> None:
    name = next(name for known, name in TABLES if known == "AT-T1")
    run, evidence = shown("AT-T1", name)
    read = run.part("read", relation="reader-is-reference")
    for key, method in {"NR": "standard", "R": "adversarial"}.items():
        rows = read.filter((pl.col("set") == key) & (pl.col("method") == method)).sort("seed")
        assert evidence["inversion"]["mean_error"][key] == rows["error_mean"].to_list()


def test_a_sweep_is_shown_value_by_value() -> None:
    name = next(name for known, name in TABLES if known == "FA-F5")
    run, evidence = shown("FA-F5", name)
    for line in evidence["sweep"]:
        rows = run.part("table").filter(pl.col("at") == line["value"])
        assert isinstance(line["mean"], float)
        assert len(line["ratios"]) == rows["seed"].n_unique()
