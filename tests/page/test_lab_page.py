"""The lab in a browser: stories, sliders, links, commands, keyboard, both colours and widths, and a run for real."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_lab_twins import drawn

from featscope.experiments.keys import parse_assignments
from featscope.experiments.registry import experiment
from featscope.experiments.spec import request
from featscope.lab import server
from featscope.lab.controls import CONTROLS
from featscope.lab.page import write_lab
from featscope.lab.stories import STORIES

SIZES = [(width, scheme) for width in (400, 1600) for scheme in ("light", "dark")]
BY_NAME = {story.name: story for story in STORIES}
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def lab_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("lab") / "lab.html"
    write_lab(target)
    return target


@pytest.fixture
def open_lab(browser: Any, lab_file: Path) -> Iterator[Open]:
    from conftest import Watched

    contexts = []

    def opened(link: str = "", width: int = 1600, scheme: str = "light") -> Any:
        view = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=view, color_scheme=scheme, offline=True))
        watched = Watched(contexts[-1].new_page())
        watched.page.goto(lab_file.as_uri() + link)
        settled(watched.page)
        return watched

    yield opened
    for context in contexts:
        context.close()


def settled(page: Any, before: int = 0) -> int:
    """Wait until texts have followed the curves; return how often they have."""
    times = 0
    while times <= before:
        page.wait_for_timeout(100)
        times = int(page.locator("body").get_attribute("data-ready") or 0)
    return times


def ready(page: Any) -> int:
    return int(page.locator("body").get_attribute("data-ready") or 0)


def tell(page: Any, name: str) -> None:
    before = ready(page)
    page.evaluate("name => lab.tell(DATA.stories.find(s => s.name === name))", name)
    settled(page, before)


def told(page: Any) -> dict[str, str]:
    """The numbers by name."""
    return dict(
        page.eval_on_selector_all(
            "#numbers > div", "all => all.map(d => [d.children[0].textContent, d.children[1].textContent])"
        )
    )


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_all_stories_without_complaint_request_or_sideways_scrolling(
    width: int, scheme: str, open_lab: Open
) -> None:
    watched = open_lab(width=width, scheme=scheme)
    page = watched.page
    for story in STORIES:
        tell(page, story.name)
        assert story.question[:40] in page.locator("#story").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("canvas").first.get_attribute("aria-label")
        assert page.evaluate("lab.settings()") == story.full_settings()
    assert watched.complaints == []
    assert [url for url in watched.requests if not url.startswith("file:")] == []
    assert len(watched.requests) == 1


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_axe_finds_no_serious_fault_in_any_model(width: int, scheme: str, open_lab: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install -e '.[page]'")
    page = open_lab(width=width, scheme=scheme).page
    for name in ("switch", "finer-labels", "too-many"):
        tell(page, name)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        found = axe.Axe().run(page).response["violations"]
        grave = [(f["id"], f["nodes"][0]["html"]) for f in found if f["impact"] in ("serious", "critical")]
        print(f"\naxe at {width} px, {scheme}, {name}: {[(f['id'], f['impact']) for f in found]}")
        assert grave == []


def test_what_the_stories_say_is_what_the_curves_show(open_lab: Open) -> None:
    page = open_lab().page
    last = "lab.shown().done.rows[lab.shown().done.rows.length - 1]"
    tell(page, "weak-wins")
    assert min(page.evaluate(f"{last}.B")) > 1
    assert max(page.evaluate(f"{last}.A")) < 0.1
    tell(page, "switch")
    assert min(page.evaluate(f"{last}.A")) > 0.5
    assert max(page.evaluate(f"{last}.B")) < 1
    tell(page, "averaging")
    coarse = sorted(page.evaluate(f"{last}.radii"))[5]
    tell(page, "finer-labels")
    fine = sorted(page.evaluate(f"{last}.radii"))[5]
    assert fine / coarse == pytest.approx(5**0.5, rel=0.05)
    tell(page, "three-stages")
    assert re.match(r"train 100 %, test (4\d|5\d)", told(page)["attacked points right"])
    tell(page, "too-many")
    assert told(page)["attacked points right"] == "train 100 %, test 100 %"


def test_a_link_holds_the_settings(open_lab: Open) -> None:
    page = open_lab("#fa&k=7&groups=5&init=0.5&seed=4").page
    assert page.evaluate("lab.settings()") == {
        "k": 7, "plus": 5, "groups": 5, "d": 3072, "n": 1000, "init": 0.5, "cosine": 0, "rate": 3.072, "steps": 100, "seed": 4,
    }  # fmt: skip
    before = ready(page)
    page.locator("#c-d").focus()
    page.keyboard.press("ArrowRight")
    settled(page, before)
    here, chosen = page.url, page.evaluate("lab.settings()")
    assert chosen["d"] > 3072
    page.goto("about:blank")
    page.goto(here)
    settled(page)
    assert page.evaluate("lab.settings()") == chosen


@pytest.mark.parametrize(
    "link",
    ["#at&eps=9&k=1.4&d=nothing&clip=no&who=1", "#fa&k=3&plus=11&groups=12", "#nothing&a=b", "#at&%zz"],
)
def test_a_link_that_asks_for_too_much_is_brought_back(link: str, open_lab: Open) -> None:
    watched = open_lab(link)
    model, chosen = watched.page.evaluate("[lab.model(), lab.settings()]")
    for control in CONTROLS[model]:
        assert control.kind == "choice" or control.low <= chosen[control.key] <= control.high
    assert model != "fa" or (chosen["plus"] < chosen["k"] and chosen["groups"] <= chosen["k"])
    assert watched.complaints == []


def test_the_command_is_one_that_featscope_takes(open_lab: Open) -> None:
    page = open_lab().page
    cases = [(story.model, story.full_settings()) for story in STORIES]
    cases += [(model, drawn(model, seed)) for model in CONTROLS for seed in range(25)]
    names = set()
    for model, s in cases:
        words = shlex.split(page.evaluate("([model, s]) => commands[model](s)", [model, s]))
        assert words[:2] == ["featscope", "run"]
        assert words[3::2] == ["--set"] * len(words[3::2])
        wanted = request(experiment(words[2]), "cpu", parse_assignments(words[4::2]))
        assert wanted.spec.seeds == (s["seed"],)
        names.add(words[2])
    assert names == {"patch-fig3", "patch-scaling", "clusters-fig3", "signal-stages"}


def test_the_commands_of_stories_have_the_stories_numbers(open_lab: Open) -> None:
    page = open_lab().page
    line = page.evaluate("s => commands.fa(s)", BY_NAME["averaging"].full_settings())
    fa = request(experiment("clusters-fig3"), "cpu", parse_assignments(shlex.split(line)[4::2])).spec
    assert (fa.law.k, fa.law.d, fa.training.n, fa.training.learning_rate, fa.training.init_weight) == (
        10,
        3072,
        1000,
        1e-3,
        1e-5,
    )
    line = page.evaluate("s => commands.cgro(s)", BY_NAME["too-many"].full_settings())
    cgro = request(experiment("signal-stages"), "cpu", parse_assignments(shlex.split(line)[4::2])).spec
    assert (cgro.n, cgro.law.d, cgro.law.gap, cgro.steps) == (80, 512, 0.0442, 40_000)
    assert cgro.learning_rate == pytest.approx(0.1, rel=0.01)


def test_everything_is_reached_by_keyboard(open_lab: Open) -> None:
    page = open_lab("#at").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.locator(".models button", has_text="CGRO").focus()
    page.keyboard.press("Enter")
    page.wait_for_timeout(400)
    assert page.evaluate("lab.model()") == "cgro"
    page.locator("#c-tradeoff").focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(400)
    assert page.evaluate("lab.settings().tradeoff") == 0
    number = page.get_by_label("N, typed")
    number.fill("1e2")
    number.press("Enter")
    page.wait_for_timeout(400)
    assert page.evaluate("lab.settings().n") == 100
    assert page.locator("#c-n").get_attribute("aria-valuetext") == "100"


def test_regions_are_marked_and_said(open_lab: Open) -> None:
    page = open_lab("#fa&k=3&plus=1&groups=2").page
    region = page.locator(".control", has=page.locator("#c-n"))
    assert "✗ n ≥ k^7" in region.locator(".told").inner_text()
    assert "--holds" in region.locator(".region").get_attribute("data-look"), (
        "no part of n meets the assumption"
    )
    page.evaluate("lab.change({ n: 3000 })")
    page.wait_for_timeout(400)
    assert "✓ n ≥ k^7" in region.locator(".told").inner_text()


@pytest.mark.parametrize(
    "link",
    [
        "#at&training=adversarial&d=1000000000&step=30000",
        "#fa&d=1000000000",
        "#cgro&d=1000000000&steps=100000000000",
    ],
)
def test_frames_while_dragging_at_the_largest_dimension_are_told(link: str, open_lab: Open) -> None:
    """How many frames follow a hand is told, not asserted: no test depends on the clock. That every one of them is
    computed anew is asserted."""
    page = open_lab(link).page
    page.locator("#c-d").scroll_into_view_if_needed()
    box = page.locator("#c-d").bounding_box()
    page.evaluate("lab.frames.length = 0")
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] - 9, y)
    page.mouse.down()
    for place in range(60):
        page.mouse.move(box["x"] + box["width"] - 9 - place / 6, y)
        page.wait_for_timeout(10)
    page.mouse.up()
    frames = page.evaluate("lab.frames.map(f => f.cost)")
    cost = sorted(frames)[len(frames) // 2]
    print(
        f"\n{link}: {len(frames)} frames, {cost:.1f} ms each, {1000 / cost:.0f} a second if nothing else runs"
    )
    assert len(frames) > 3


@pytest.fixture(scope="module")
def live() -> Iterator[str]:
    pytest.importorskip("starlette", reason="a run for real needs the extra: pip install -e '.[lab]'")
    uvicorn = pytest.importorskip("uvicorn", reason="a run for real needs the extra: pip install -e '.[lab]'")
    sock = server.bound_socket(0)
    port = sock.getsockname()[1]
    running = uvicorn.Server(uvicorn.Config(server.application(port), log_level="error"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not running.started:
        thread.join(0.05)
    yield f"http://127.0.0.1:{port}/"
    running.should_exit = True
    thread.join()
    sock.close()


@pytest.mark.parametrize(
    ("link", "gap"),
    [
        (
            "#at&d=200&steps=400&rate=0.05&seed=1",
            "Math.max(...rows.map(r => Math.abs(Math.log(r.B[0] / at(r.time).B[0]))))",
        ),
        (
            "#fa&n=300&steps=40",
            "Math.max(...rows.map(r => Math.abs(r.lambdaMean - at(r.step).lambdaMean) / at(40).lambdaMean))",
        ),
        (
            "#cgro&n=6&d=256&steps=600&gap=0.02",
            "Math.max(...rows.slice(1).map(r => Math.abs(Math.log(r.signal / at(r.time).signal))))",
        ),
    ],
)
def test_a_run_for_real_goes_along_its_prediction(link: str, gap: str, live: str, browser: Any) -> None:
    from conftest import Watched

    context = browser.new_context(viewport={"width": 1600, "height": 900})
    watched = Watched(context.new_page())
    page = watched.page
    page.goto(live + link)
    settled(page)
    page.get_by_role("button", name="Run full descent").click()
    said = page.locator("#real-said").filter(has_text=re.compile("^(done|error)"))
    said.wait_for(timeout=120_000)
    assert said.inner_text().startswith("done")
    page.wait_for_timeout(500)
    nearest = "const at = t => lab.shown().done.rows.reduce((a, b) => Math.abs((b.time ?? b.step) - t) < Math.abs((a.time ?? a.step) - t) ? b : a);"
    apart = page.evaluate(f"(() => {{ const rows = lab.real().rows; {nearest} return {gap}; }})()")
    print(f"\n{link}: descent and prediction differ by at most {apart:.3f}")
    assert apart < 0.25
    assert page.locator("#real-table tr").count() > 1
    assert watched.complaints == []
    assert {url.split("#")[0] for url in watched.requests} == {live, live + "real"}
    page.evaluate("lab.change({ seed: 9 })")
    page.wait_for_timeout(400)
    assert page.evaluate("lab.real()") is None
    context.close()
