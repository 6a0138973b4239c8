"""Key numbers: each experiment declares some, and they are read off the summary in words."""

import pytest

from featscope.experiments.highlights import Highlight, key_numbers
from featscope.experiments.registry import experiments

SUMMARY = {
    "adversarial": {"clean": 0.975, "robust": {"ball": {"upper": 0.5}, "span": {"upper": None}}, "u": [0.1, 0.25]},
    "by_seed": [{"seed": 3, "median": 2.0}, {"value": 1e7, "median": 4.0}, 7],
    "mean": {"mean": 0.5, "interval": [0.25, 0.75]},
    "one": {"mean": 0.5, "interval": None},
    "count": 432000,
    "curve": list(range(20)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("highlight", "told"),
    [
        (Highlight("adversarial/clean", "clean", "share"), [("clean", "97.5 %")]),
        (
            Highlight("adversarial/robust/*/upper", "at most, {}", "share"),
            [("at most, ball", "50.0 %"), ("at most, span", "none")],
        ),
        (Highlight("adversarial/u", "u"), [("u", "0.1, 0.25")]),
        (Highlight("by_seed/*/median", "median {}"), [("median 3", "2"), ("median 1e+07", "4")]),
        (Highlight("mean", "area"), [("area", "0.5 (0.25 to 0.75)")]),
        (Highlight("one", "area", "share"), [("area", "50.0 %")]),
        (Highlight("count", "parameters"), [("parameters", "432 000")]),
        (Highlight("curve", "curve"), [("curve", "0, …, 19")]),
        (Highlight("absent/*", "no {}"), []),
        (Highlight("count/deeper", "no"), []),
    ],
    ids=lambda item: getattr(item, "key", ""),
)
def test_a_number_is_told(highlight: Highlight, told: list[tuple[str, str]]) -> None:
    assert key_numbers([highlight], SUMMARY) == told


def test_every_experiment_has_some_and_their_words_fit_their_stars() -> None:
    for plan in experiments().values():
        assert plan.highlights, plan.name
        for highlight in plan.highlights:
            assert highlight.key.split("/").count("*") == highlight.meaning.count("{}"), (
                plan.name,
                highlight,
            )
