"""A reading's run has every setting that its name and its text say, in every profile.

A profile may change whatever a reading does not fix itself: then the text would speak of another run.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from featscope.claims.claim import Reading
from featscope.claims.registry import claims
from featscope.experiments.registry import experiment
from featscope.experiments.spec import PROFILES, Spec, resolve
from featscope.papers.at.patch_fig3 import PatchFig3

Told = Callable[[Any], Any]


def _plan(arm: str) -> Callable[[PatchFig3], Any]:
    return lambda spec: getattr(spec, arm)


def _figure_3(arm: str) -> dict[str, Told]:
    """What a phrase of a reading of `patch-fig3` says: pattern with one group → the setting."""
    plan = _plan(arm)
    return {
        r"η = ([\d.]+)": lambda spec: plan(spec).learning_rate,
        r"batches of (\d+)": lambda spec: plan(spec).batch_size,
        r"(full batch)": lambda spec: "full batch" if plan(spec).batch_size is None else "batches",
        r"(patch|coordinate) clip": lambda spec: spec.adversarial.clip,
        r"q = (\d+)": lambda spec: spec.net.q,
        r"σ0 = ([\d.]+)": lambda spec: spec.net.sigma_0,
        r"(ℓ2) ball": lambda spec: {"L2": "ℓ2"}.get(spec.norm, spec.norm),
        r"ascent on the (margin)": lambda spec: spec.adversarial.objective,
        r"PGD with (three) steps": lambda spec: {3: "three"}.get(spec.adversarial.attack_steps),
        r"(one) seed$": lambda spec: {1: "one"}.get(len(spec.seeds)),
    }


#: experiment → what its readings may say
PHRASES: dict[str, dict[str, Told]] = {
    "patch-scaling": {
        r", k = (\d+)": lambda spec: spec.law.k,
        r"inside \(k = (\d+)\)": lambda spec: spec.law.k,
        r"c0 = ([\d.]+)": lambda spec: spec.c0,
        r"α = (\d+)": lambda spec: spec.law.of_class("alpha", 0).infimum,
        r"β = (\d+)": lambda spec: spec.law.of_class("beta", 0).infimum,
        r"ε = ([\d.]+),": lambda spec: spec.eps,
        r"P = (\d+)": lambda spec: spec.law.patches,
        r"ϱ = \(log d\)\^−(\d)": lambda spec: spec.rho_power if spec.net.rho == 1 else None,
        r"(m = log d)": lambda spec: "m = log d" if (spec.net.width, spec.width_power) == (1, 1) else "",
        r"d from 10⁹ (to 10¹⁵)": lambda spec: {(10**9, 10**15): "to 10¹⁵"}.get(
            (min(spec.dimensions), max(spec.dimensions))
        ),
    },
    "clusters-properties": {
        r"at k = (\d+)": lambda spec: spec.law.k,
        r"(float32)": lambda spec: spec.dtype,
    },
    "clusters-assumption": {
        r"at k = (\d+)": lambda spec: spec.law.k,
        r"(float32)": lambda spec: spec.dtype,
    },
}


def _phrases(name: str, reading: Reading, claim: str) -> dict[str, Told]:
    if name != "patch-fig3":
        return PHRASES.get(name, {})
    standard = claim in {"AT-T4.3", "AT-LE.4", "AT-LD.7"} or reading.name == "standard"
    return _figure_3("standard" if standard else "adversarial")


def _same(said: str, value: Any) -> bool:
    return float(said) == value if re.fullmatch(r"[\d.]+", said) else said == value


CASES = [
    pytest.param(claim.id, reading, profile, id=f"{claim.id} {reading.name} {profile}")
    for claim in claims().values()
    for reading in claim.readings
    for profile in PROFILES
]


def told(
    claim: str, reading: Reading, spec: Spec, name: str, profile: str = "cpu"
) -> list[tuple[str, str, Any]]:
    """Each phrase that is found, what it says and what the run has; "k = 3 (quick: 2)" says 2 in that
    profile."""
    kept = r"\2" if profile == "quick" else r"\1"
    text = re.sub(r"(\d+) \(quick: (\d+)\)", kept, f"{reading.name}; {reading.text}")
    return [
        (pattern, said, value(spec))
        for pattern, value in _phrases(name, reading, claim).items()
        for said in re.findall(pattern, text)
    ]


@pytest.mark.parametrize(("claim", "reading", "profile"), CASES)
def test_the_run_is_what_the_reading_says(claim: str, reading: Reading, profile: str) -> None:
    for need in reading.needs.values():
        plan = experiment(need.experiment)
        spec = resolve(plan, profile, need.overrides)
        for pattern, said, has in told(claim, reading, spec, need.experiment, profile):
            assert _same(said, has), f"{pattern}: the reading says {said}, its run has {has}"


def test_every_reading_of_figure_3_training_says_its_step_and_batch() -> None:
    for claim in ("AT-T4.3", "AT-T4.4", "AT-F3"):
        for reading in claims()[claim].readings:
            assert re.search(r"η = [\d.]+", reading.text), reading.name
            assert re.search(r"batches of \d+|full batch", reading.text), reading.name


def test_a_profile_that_changes_what_a_reading_says_is_noticed() -> None:
    reading = next(r for r in claims()["AT-T4.4"].readings if r.name == "full-ball")
    other = PatchFig3(adversarial=PatchFig3().adversarial.replace(learning_rate=1.0))
    assert [
        (said, has) for _, said, has in told("AT-T4.4", reading, other, "patch-fig3") if not _same(said, has)
    ] == [("0.1", 1.0)]
