"""Printed numbers stand beside the run's own, each beside the right one."""

from __future__ import annotations

import pytest
from judging import made

from featscope.papers import at, ep, fa
from featscope.papers.at.printed import TABLE_1, TABLE_2


def test_figure_3_of_at_compares_settings() -> None:
    found = at.COMPARISONS["patch-fig3"](made("patch-fig3", eps=0.7, adversarial__learning_rate=3.0))
    by_name = {one.what: (one.printed, one.ours) for one in found}
    assert by_name["radius ε"] == (1.2, 0.7)
    assert by_name["learning rate η, adversarial training"] == (0.1, 3.0)
    assert by_name["learning rate η, standard training"][0] == 0.1


def test_table_1_cell_by_cell() -> None:
    cells = {"clean_test": 0.1, "robust_test": 0.2, "feature_NR": 0.3}
    table = {
        "standard": {key: {"mean": value} for key, value in cells.items()},
        "adversarial": {key: {"mean": value + 0.5} for key, value in cells.items()},
    }
    tables = {"reader-is-reference": table, "other-start": table}
    found = at.COMPARISONS["image-features"](made("image-features", summary={"table": tables}))
    assert len(found) == 4 + 2 * 4
    robust = next(one for one in found if "adversarial" in one.what and "robust test" in one.what)
    assert (robust.printed, robust.ours) == (TABLE_1["mnist"]["adversarial"].robust_test, 0.7)
    assert [one.ours for one in found if "D̂_R" in one.what] == [None] * 4
    assert sum("(other-start)" in one.what for one in found) == 4


def test_table_2_pair_by_pair() -> None:
    rates = {"3-5": {"mean": 0.25}, "5-3": {"mean": 0.5}}
    table = {"standard": {"RF": {"pairs": rates}}}
    run = made(
        "image-feature-attacks",
        summary={"datasets": {"cifar10": {"table": table}}},
        pairs=[[3, 5], [5, 3]],
    )
    found = at.COMPARISONS["image-feature-attacks"](run)
    assert len(found) == 8
    robust = [one for one in found if "standard training: RF" in one.what]
    assert [(one.printed, one.ours) for one in robust] == [
        (TABLE_2["standard"]["RF"][0], 0.25),
        (TABLE_2["standard"]["RF"][1], 0.5),
    ]


def test_figure_3_of_fa_is_read_between_our_radii_and_not_beyond_them() -> None:
    rows = [
        {"seed": seed, "radius": radius, "binary_exact": exact, "fine_certified": certified}
        for seed in (0, 1)
        for radius, exact, certified in ((10.0, 1.0, 1.0), (14.0, 0.5, 0.9), (35.0, 0.0, 0.4))
    ]
    found = {one.what: one for one in fa.COMPARISONS["clusters-fig3"](made("clusters-fig3", {"curve": rows}))}
    two = found["2-class labels: robust accuracy at ℓ2 radius 12"]
    assert (two.printed, two.ours) == (1.0, pytest.approx(0.75))
    assert found["k-class labels: robust accuracy at ℓ2 radius 34"].ours == pytest.approx(0.4 + 0.5 / 21)
    assert found["k-class labels: robust accuracy at ℓ2 radius 36"].ours is None


def test_separations_of_both_pairs_and_what_was_not_measured() -> None:
    line = {"dataset": "mnist", "whole": False, "train_train": 0.7, "test_train": 0.8}
    found = ep.COMPARISONS["image-separation"](made("image-separation", summary={"table": [line]}))
    assert [(one.printed, one.ours) for one in found[:2]] == [(0.737, 0.7), (0.812, 0.8)]
    assert found[0].note == "ours is over a part of the data"
    assert [one.ours for one in found[2:]] == [None] * 6
