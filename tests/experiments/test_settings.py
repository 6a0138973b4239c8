"""Settings as they are declared and given: meanings, letters, fractions, and what is refused."""

import re
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from featscope.core.errors import BadInput
from featscope.core.frozen import Value
from featscope.core.settings import RadiusList, allowed, letter_of, setting
from featscope.experiments import cost
from featscope.experiments.keys import full_key, leaves, parse_assignments, parse_value
from featscope.experiments.registry import experiment, experiments
from featscope.experiments.spec import Experiment, Spec, request, resolve
from featscope.experiments.spec import cost as cost_of

DOCS = Path(__file__).parents[2] / "docs"


def test_no_setting_lacks_its_meaning() -> None:
    silent = [
        f"{plan.name} {key}"
        for plan in experiments().values()
        for key, info in leaves(plan.spec).items()
        if not info.description
    ]
    assert silent == []
    assert sum(len(leaves(plan.spec)) for plan in experiments().values()) > 900


def test_every_setting_says_what_it_may_be() -> None:
    silent = {
        f"{plan.name} {key}"
        for plan in experiments().values()
        for key, info in leaves(plan.spec).items()
        if not allowed(info)
    }
    assert silent == set()


@pytest.mark.parametrize(
    ("name", "letters"),
    [
        ("patch-fig3", {"P": "law.patches", "m": "net.width", "N": "train_size", "η̃": "adversarial.step_size"}),
        ("patch-fig3", {"eta_tilde": "adversarial.step_size", "σ_n": "law.sigma_n", "sigma_0": "net.sigma_0"}),
        ("patch-minima", {"γ": "gammas", "ε": "eps", "P": "law.patches"}),
        ("patch-noise", {"N": "train_size", "eta": "learning_rate", "T": "steps"}),
        ("clusters-fig2", {"η": "training.learning_rate", "σ_w": "training.init_weight", "T": "training.steps"}),
        ("signal-stages", {"N": "n", "λ": "tradeoff", "lambda": "tradeoff", "P": "law.patches", "σ_0": "init_scale"}),
        ("built-cgro", {"D": "dimensions", "N": "samples"}),
        ("built-memorise", {"R": "separation", "δ": "delta"}),
        ("packing", {"mu": "mus", "δ": "deltas"}),
    ],
)  # fmt: skip
def test_letters_of_the_papers_are_keys(name: str, letters: dict[str, str]) -> None:
    assert {letter: full_key(experiment(name).spec, letter) for letter in letters} == letters


def test_the_letters_of_the_notation_page_work_in_every_experiment_that_has_the_setting() -> None:
    """Rows `| letter | \\`key\\` |` of docs/notation.md that name one letter and one key of a spec."""
    rows = re.findall(r"^\| ([^|,]+) \| `([a-z_.]+)`", (DOCS / "notation.md").read_text(), flags=re.M)
    checked = 0
    for letter, key in rows:
        for plan in experiments().values():
            known = leaves(plan.spec)
            if plan.paper == "at" and key in known and letter_of(known[key]):
                assert letter_of(known[key]) == letter.strip(), (plan.name, key)
                checked += 1
    assert checked > 20


def test_two_settings_of_one_letter_are_not_guessed() -> None:
    with pytest.raises(BadInput, match=r"ambiguous key: η; write standard.learning_rate or adversarial"):
        full_key(experiment("patch-fig3").spec, "η")


def test_values_as_they_are_typed() -> None:
    assert parse_value("8/255") == 8 / 255
    assert parse_value("[2/255, 1e-1]") == [2 / 255, 0.1]
    assert parse_value(" .5/2 ") == 0.25
    assert parse_value("a/b") == "a/b"
    assert parse_value("[" * 100_000) == "[" * 100_000
    with pytest.raises(BadInput, match="denominator"):
        parse_value("1/0")


def test_a_part_that_is_set_keeps_its_siblings() -> None:
    spec = resolve(experiment("patch-fig3"), "quick", {"law": {"k": 3}})
    usual = resolve(experiment("patch-fig3"), "quick")
    assert spec.law == usual.law.replace(k=3)
    assert usual.law.d == 40 != type(usual.law)().d


@pytest.mark.parametrize(
    "changes",
    [{"d": 50, "law.d": 60}, {"law": {"d": 50}, "d": 60}, {"P": 4, "law.patches": 4}],
    ids=str,
)
def test_a_setting_is_given_once(changes: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="given twice"):
        resolve(experiment("patch-fig3"), "quick", changes)


def test_the_same_key_twice_on_a_command_line() -> None:
    with pytest.raises(BadInput, match="given twice: --set eps"):
        parse_assignments(["eps=1", "eps=2"])


class Net(Value):
    width: int = setting(3, "neurons", letter="m", ge=1)
    radii: RadiusList = setting((0.0, 1.0), "radii")
    few: tuple[int, ...] = setting((), "perhaps none", min_length=0)
    on: bool = setting(False, "a switch")
    share: float | None = setting(None, "a share", gt=0, lt=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"width": True}, "width must be a number: width=true"),
        ({"width": "4"}, "width must be a number: width='4'"),
        ({"width": 1.5}, "width: a whole number is needed"),
        ({"radii": []}, "radii must not be empty"),
        ({"radii": [0.2, 0.1]}, "radii must be ascending"),
        ({"radii": [0.1, 0.1]}, "radii must be ascending"),
        ({"radii": [-0.1]}, "radii.0"),
        ({"radii": 0.1}, "radii: a list is needed"),
        ({"radii": [True]}, "radii must be a number"),
        ({"share": "half"}, "share must be a number"),
        ({"wdith": 3}, "did you mean width?"),
    ],
    ids=str,
)
def test_what_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        Net(**given)


def test_what_is_not_refused() -> None:
    assert Net(few=[], on=True, share=0.5, radii=[0.5]).radii == (0.5,)


class Wider(Net):
    width: int = Field(default=9, ge=1)


def test_another_default_keeps_the_meaning() -> None:
    info = Wider.model_fields["width"]
    assert (info.description, letter_of(info), Wider().width) == ("neurons", "m", 9)


def test_ranges_in_words() -> None:
    told = {key: allowed(info) for key, info in Net.model_fields.items()}
    assert told["width"] == "whole, ≥ 1"
    assert told["radii"] == "list, each ≥ 0"
    assert told["on"] == "true or false"
    assert told["share"] == "> 0, < 1 or none"


class Sized(Spec):
    n: Annotated[int, Field(ge=1)] = 1000


def sized(spec: Sized) -> cost.Size:
    return cost.Size(spec.n, spec.n**2)


PLAN = Experiment("sized", "at", "x", Sized, lambda spec, folder: {}, {"cpu": "2 s"}, size=sized)


def test_cost_scales_with_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = cost_of(PLAN, "cpu", Sized())
    assert usual.seconds == 2
    assert usual.memory == cost.BARE + cost.COPIES * 8 * 1000
    assert cost_of(PLAN, "cpu", Sized(n=500)).seconds == pytest.approx(0.5)
    # Small runs do not spend their time on products: what is added goes at the rate of large ones.
    assert cost_of(PLAN, "cpu", Sized(n=10**6)).seconds == pytest.approx(2 + 1e12 / 1e9, rel=1e-3)
    assert cost_of(PLAN, "quick", Sized()).seconds is None
    monkeypatch.setattr(cost, "machine_memory", lambda: 1e9)
    request(PLAN, "cpu", {"n": 10**6})
    with pytest.raises(
        BadInput, match=r"more memory than the machine has: sized: about 24 GB, here are 1 GB"
    ):
        request(PLAN, "cpu", {"n": 10**9})
    monkeypatch.setattr(cost, "machine_memory", lambda: None)
    with pytest.raises(BadInput, match="more than a month"):
        request(PLAN, "cpu", {"n": 10**9})
    with pytest.raises(BadInput, match="more than a month"):
        request(PLAN, "cpu", {"n": 10**400})
    # Nobody has timed this profile: what no machine could do is refused.
    request(PLAN, "quick", {"n": 10**9})
    with pytest.raises(BadInput, match=r"more than a month: sized: at least 3\.17 years"):
        request(PLAN, "quick", {"n": 10**11})


def test_profiles_themselves_can_be_afforded() -> None:
    for plan in experiments().values():
        for profile in ("quick", "cpu"):
            memory = cost_of(plan, profile, resolve(plan, profile)).memory
            assert memory is not None
            assert memory < 6e9, (plan.name, profile)


def test_numbers_in_units() -> None:
    assert [cost.in_bytes(n) for n in (5e3, 4.2e6, 25e9, 3e12)] == ["5 kB", "4.2 MB", "25 GB", "3 TB"]
    assert [cost.in_time(s) for s in (0.2, 12, 150, 7200, 2e5, 4e9)] == [
        "1 s", "12 s", "2.5 min", "2 h", "2.31 days", "127 years"
    ]  # fmt: skip
