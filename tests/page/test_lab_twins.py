"""The browser's recursions are Python's: from the same start values to a relative 1e-9, at random settings and in all
stories."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import lab_twins
import pytest
import torch

from featscope.core.conditions import Condition
from featscope.lab.controls import CONTROLS, Choice, LabModel
from featscope.lab.page import write_lab
from featscope.lab.stories import STORIES
from featscope.laws.clusters import ClusterLaw, ClusterSetting
from featscope.laws.patches import PatchLaw, PatchSetting
from featscope.laws.signal import SignalLaw, SignalSetting

SAME = 1e-9
#: a run that moves by more than this when its start moves by one rounding is not determined by its start
DETERMINED = 1e-10
DRAWS = 12

RUN = """([model, s]) => {
  const engine = lab.engines[model], first = engine.start(s), done = engine.run(s, first), last = done.rows[done.rows.length - 1];
  const plain = values => Object.fromEntries(Object.entries(values).filter(([, v]) => typeof v !== "number").map(([k, v]) => [k, v === null ? null : Array.from(v)]));
  const more = {
    at: () => ({ rows: done.rows.map(r => [r.time, ...r.A, ...r.B, r.C, r.D]), radius: done.radius[done.radius.length - 1].each }),
    fa: () => ({ cosines: done.cosines, radius: last.radii, averaged: engine.predictions(s).averaged, groups: done.groups }),
    cgro: () => ({ rows: done.rows.map(r => [r.time, r.signal, r.low, r.median, r.high]), fresh: Array.from(done.fresh[done.fresh.length - 1].V) }),
  };
  return { start: plain(first), ...plain(done.state), ...more[model]() };
}"""
PAIRS = "([s, every]) => { const first = lab.engines.at.start(s); return { gram: first.gram && Array.from(first.gram), pairs: lab.engines.at.pairs(s, first, every) }; }"
CONDITIONS = "([model, s]) => lab.engines[model].conditions(s).map(c => [c.name, String(c.value), String(c.bound), c.met])"


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    target = tmp_path_factory.mktemp("lab") / "lab.html"
    write_lab(target)
    opened = browser.new_page()
    opened.goto(target.as_uri())
    yield opened
    opened.close()


def drawn(model: LabModel, seed: int) -> dict[str, Any]:
    """Settings anywhere on the sliders."""
    rng, found = random.Random(f"{model} {seed}"), {}
    for c in CONTROLS[model]:
        if isinstance(c, Choice):
            found[c.key] = rng.choice(list(c.options))
            continue
        high = (
            {"plus": found.get("k", 2) - 1, "groups": found.get("k", 2)}.get(c.key, c.high)
            if model == "fa"
            else c.high
        )
        part = rng.random()
        value = c.low * (high / c.low) ** part if c.scale.startswith("log") else c.low + (high - c.low) * part
        found[c.key] = round(value) if "whole" in c.scale else value
    return found


def error(browser: Any, python: Any) -> float:
    """The largest difference, relative to the largest entry of each row."""
    a, b = torch.as_tensor(browser, dtype=torch.float64), torch.as_tensor(python, dtype=torch.float64)
    a = a.reshape(b.shape)
    scale = b.abs().amax(-1, keepdim=True) if b.dim() else b.abs()
    return float(((a - b).abs() / scale.clamp(min=1e-300)).max()) if b.numel() else 0.0


def compared(found: dict[str, Any], twin: dict[str, Any]) -> dict[str, float]:
    keys = [key for key in twin if key != "e" or found["e"]]
    return {
        key: error(found[key], twin[key].flatten() if key in ("u", "v", "c", "e") else twin[key])
        for key in keys
    }


def determined(twin: lab_twins.PatchTwin, start: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether the package's own run stays the same when its start moves by a few roundings."""
    near = twin.run(twin.state([x * (1 + 1e-15) for x in start["u"]], start["v"]))
    return near["rows"].shape == whole["rows"].shape and error(near["rows"], whole["rows"]) < DETERMINED


def whole_run(model: LabModel, page: Any, s: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    found = page.evaluate(RUN, [model, s])
    if model == "at":
        twin = lab_twins.PatchTwin(s, found["start"]["gram"])
        return found, twin.run(twin.state(found["start"]["u"], found["start"]["v"]))
    return found, (lab_twins.cluster_twin if model == "fa" else lab_twins.signal_twin)(s, found["start"])


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_story_is_pythons(story: Any, page: Any) -> None:
    found, twin = whole_run(story.model, page, story.full_settings())
    wrong = compared(found, twin)
    print(f"\n{story.name}: { ({key: f'{value:.0e}' for key, value in wrong.items()}) }")
    assert max(wrong.values()) < SAME


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize("model", ["fa", "cgro"])
def test_reduced_recursions_are_pythons(model: LabModel, seed: int, page: Any) -> None:
    found, twin = whole_run(model, page, drawn(model, seed))
    assert max(compared(found, twin).values()) < SAME


@pytest.mark.parametrize("seed", range(DRAWS))
def test_every_step_of_the_patch_recursion_is_pythons(seed: int, page: Any) -> None:
    """Step by step, which holds where a run as a whole is not determined by its start in floating point: the clip with
    a large η̃ magnifies a rounding at every step."""
    s = drawn("at", seed)
    got = page.evaluate(PAIRS, [s, 25])
    twin = lab_twins.PatchTwin(s, got["gram"])
    assert got["pairs"]
    for pair in got["pairs"]:
        after, e = pair["after"], pair["before"]["e"]
        state = twin.step(twin.state(pair["before"]["u"], pair["before"]["v"], e, pair["before"]["time"]), 0)
        assert error(after["u"], state.u.flatten()) < SAME
        assert error(after["v"], state.v.flatten()) < SAME
        assert not e or error(after["e"], state.e.flatten()) < SAME
        assert after["time"] == pytest.approx(float(state.time), rel=SAME)


def test_whole_runs_of_the_patch_recursion_are_pythons_where_they_are_determined(page: Any) -> None:
    kept = 0
    for seed in range(DRAWS):
        s = drawn("at", seed)
        found, whole = whole_run("at", page, s)
        if determined(lab_twins.PatchTwin(s, found["start"]["gram"]), found["start"], whole):
            kept += 1
            assert max(compared(found, whole).values()) < SAME, s
    print(f"\n{kept} of {DRAWS} runs are determined by their start")
    assert kept >= DRAWS // 2


def python_conditions(model: LabModel, s: dict[str, Any]) -> list[Condition]:
    if model == "at":
        law = PatchLaw(
            k=s["k"],
            d=s["d"],
            patches=s["robust"] + s["weak"],
            robust_patches=s["robust"],
            alpha=s["ratio"],
            sigma_n=s["sigma_n"],
        )
        return law.check(PatchSetting(s["eps"]))
    if model == "fa":
        clusters = ClusterLaw(k=s["k"], d=s["d"], positive=s["plus"], cosine=s["cosine"])
        scale = s["init"] / s["d"]
        return clusters.check(ClusterSetting(s["n"], 5, s["rate"] / s["d"], scale, scale))
    signal = SignalLaw(d=s["d"], gap=s["gap"])
    return signal.check(SignalSetting(s["n"], s["d"] ** -0.5, s["rate"] / signal.strength**2, s["tradeoff"]))


@pytest.mark.parametrize("model", ["at", "fa", "cgro"])
def test_regions_are_those_of_the_laws_own_check(model: LabModel, page: Any) -> None:
    seen: dict[str, set[bool]] = {}
    for seed in range(40):
        s = drawn(model, seed)
        there = {
            name: (float(value.replace("Infinity", "inf")), float(bound), met)
            for name, value, bound, met in page.evaluate(CONDITIONS, [model, s])
        }
        for c in python_conditions(model, s):
            if c.name not in there:
                assert c.name in ("D3.1", "A4.3.b"), "α = σ = 1, and σ_b = σ_w, are not moved"
                continue
            value, bound, met = there[c.name]
            assert (value, bound) == (pytest.approx(c.value, rel=1e-9), pytest.approx(c.bound, rel=1e-9)), c
            assert met == c.met
            seen.setdefault(c.name, set()).add(met)
    print(f"\n{ ({name: sorted(both) for name, both in seen.items()}) }")
    used = {name for c in CONTROLS[model] for name in c.assumptions}
    known = {name for name, *_ in page.evaluate(CONDITIONS, [model, drawn(model, 0)])}
    assert used <= known
