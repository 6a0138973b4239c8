"""The page in a browser: what is clicked works, nothing is asked of the network, everybody can use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import page_runs
import pytest

SIZES = [(width, scheme) for width in (400, 1600) for scheme in ("light", "dark")]
Open = Callable[..., Any]


def shown(page: Any) -> list[str]:
    return page.eval_on_selector_all("#lines > tbody > tr:not([hidden])", "rows => rows.map(r => r.id)")


def field(page: Any, name: str) -> Any:
    return page.locator(f".filters [name={name}]")


def head(page: Any, key: str) -> Any:
    return page.locator(f"#lines > thead th[data-sort={key}]")


def live(page: Any) -> Any:
    """Scroll to the first chart and wait until it is alive."""
    page.locator(".chart").first.scroll_into_view_if_needed()
    page.wait_for_selector(".chart.live canvas")
    return page.locator(".chart.live").first


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_no_complaint_no_request_no_sideways_scrolling(width: int, scheme: str, open_page: Open) -> None:
    watched = open_page(width=width, scheme=scheme)
    page = watched.page
    live(page)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert watched.complaints == []
    outside = [url for url in watched.requests if not url.startswith(("file:", "data:", "blob:"))]
    assert outside == []
    assert len([url for url in watched.requests if url.startswith("file:")]) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.title() == "featscope report", "text of a ledger was run as code"


def test_a_table_wider_than_the_screen_scrolls_in_its_box_alone(open_page: Open) -> None:
    page = open_page(width=280).page
    boxes = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert page.evaluate(boxes) > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 280


def test_a_request_would_be_refused_and_seen(open_page: Open) -> None:
    watched = open_page()
    watched.page.evaluate("fetch('http://localhost:1/').catch(() => 0)")
    assert any("Content Security Policy" in text for text in watched.complaints)


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_axe_finds_no_serious_fault(width: int, scheme: str, open_page: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install -e '.[page]'")
    page = open_page(width=width, scheme=scheme).page
    live(page)
    page.get_by_role("button", name="Show the data").first.click()
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    found = axe.Axe().run(page).response["violations"]
    grave = [
        (fault["id"], fault["nodes"][0]["html"])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
    print(f"\naxe at {width} px, {scheme}: {[(fault['id'], fault['impact']) for fault in found]}")
    assert grave == []


def test_search_filters_and_their_address(open_page: Open) -> None:
    page = open_page().page
    everything = shown(page)
    field(page, "word").fill("own-logit at-p3.2")
    assert shown(page) == ["AT-P3.2-own-logit", "AT-P3.2-own-logit-small-noise"]
    assert "2 of" in page.locator(".filters output").inner_text()
    field(page, "word").fill("")
    field(page, "paper").select_option("fa")
    field(page, "verdict").select_option("VACUOUS")
    assert shown(page) == ["FA-X2-one-way-of-two-2"]
    address = page.url
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function(
        f"document.querySelector('.filters output').textContent === '{len(everything)} lines'"
    )
    page.goto("about:blank")
    page.goto(address)
    assert shown(page) == ["FA-X2-one-way-of-two-2"]
    field(page, "word").fill("nothing has this word")
    assert page.locator(".empty").is_visible()


def test_sorting_by_every_column_both_ways(open_page: Open) -> None:
    page = open_page().page
    values = "rows => rows.map(r => r.dataset.value === undefined ? null : Number(r.dataset.value))"
    value = head(page, "value")
    value.get_by_role("button").click()
    assert value.get_attribute("aria-sort") == "ascending"
    up = page.eval_on_selector_all("#lines > tbody > tr", values)
    numbers = [value for value in up if value is not None]
    assert len(set(numbers)) > 2
    assert up == [*sorted(numbers), *[None] * (len(up) - len(numbers))], "what has no value is last"
    value.get_by_role("button").click()
    down = page.eval_on_selector_all("#lines > tbody > tr", values)
    assert down == [*sorted(numbers, reverse=True), *[None] * (len(up) - len(numbers))]
    head(page, "verdict").get_by_role("button").click()
    verdicts = page.eval_on_selector_all("#lines > tbody > tr", "rows => rows.map(r => r.dataset.verdict)")
    order = ["HOLDS", "FAILS", "INCONCLUSIVE", "OUT_OF_SCOPE", "VACUOUS"]
    assert verdicts == sorted(verdicts, key=order.index)


def test_an_anchor_opens_its_line_even_behind_a_filter(open_page: Open) -> None:
    page = open_page("AT-P3.2-full-ball").page
    row = page.locator("#AT-P3\\.2-full-ball")
    assert row.locator("details").first.get_attribute("open") is not None
    assert row.locator("text=Evidence and runs").is_visible()
    field(page, "paper").select_option("ep")
    assert not row.is_visible()
    page.evaluate("location.hash = 'AT-P3.2-full-ball'")
    page.wait_for_function("!document.getElementById('AT-P3.2-full-ball').hidden")
    top = row.bounding_box()["y"]
    above = head(page, "order").bounding_box()
    assert top >= above["y"] + above["height"] - 1, "not below the head of the table"


def test_counts_lead_to_their_lines(open_page: Open) -> None:
    page = open_page().page
    cells = page.locator(".matrix").first.locator("a.count")
    for place in range(cells.count()):
        cell = cells.nth(place)
        number, verdict = int(cell.inner_text().split()[0]), cell.get_attribute("data-filter-verdict")
        cell.click()
        page.wait_for_function("location.hash.startsWith('#ledger?')")
        lines = page.eval_on_selector_all(
            "#lines > tbody > tr:not([hidden])", "rows => rows.map(r => r.dataset.verdict)"
        )
        assert lines == [verdict] * number


def test_from_a_line_to_its_figure_to_its_claim_and_back(open_page: Open) -> None:
    page = open_page("AT-P3.2-full-ball").page
    page.locator("#AT-P3\\.2-full-ball").get_by_role("link", name="figure:").first.click()
    figure = page.locator("figure:target")
    assert figure.is_visible()
    figure.locator(".supports a.claim", has_text="AT-P3.2").click()
    assert page.locator("tr:target").get_attribute("id") == "AT-P3.2"
    page.locator("tr:target a.reading", has_text="full-ball").click()
    assert page.locator("tr:target").get_attribute("id") == "AT-P3.2-full-ball"


def test_charts_come_alive_with_switches_data_and_files(open_page: Open) -> None:
    page = open_page().page
    assert page.locator(".chart.live").count() == 0, "none before it is in view"
    assert page.evaluate("window.vegaEmbed === undefined"), "nor the library"
    chart = live(page)
    assert chart.locator("canvas").get_attribute("aria-label") == chart.get_attribute("data-alt")
    assert not chart.locator("img").is_visible()
    figure = page.locator("figure", has=chart).first
    button = figure.get_by_role("button", name="Show the data")
    button.click()
    assert figure.locator(".points table tbody tr").count() > 3
    for kind, begin in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with page.expect_download() as waited:
            figure.get_by_role("button", name=f"Save {kind}").click()
        assert waited.value.path().read_bytes().startswith(begin)


@pytest.mark.parametrize("width", [400, 1600])
def test_a_chart_fits_its_box(width: int, open_page: Open) -> None:
    chart = live(open_page(width=width).page)
    room, drawn = (chart.evaluate(f"e => e.{key}") for key in ("clientWidth", "scrollWidth"))
    assert drawn <= room + 1


def test_colours_follow_the_system_and_the_switch(open_page: Open) -> None:
    page = open_page(scheme="dark").page
    back = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(back) == "rgb(22, 24, 29)"
    live(page)
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(back) == "rgb(255, 255, 255)"
    page.reload()
    assert page.evaluate(back) == "rgb(255, 255, 255)", "the choice is kept"
    page.get_by_role("button", name="Auto").click()
    assert page.evaluate(back) == "rgb(22, 24, 29)"


def test_everything_is_reached_by_keyboard(open_page: Open) -> None:
    page = open_page().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    field(page, "word").focus()
    page.keyboard.type("full-ball")
    assert all("full-ball" in anchor for anchor in shown(page))
    head(page, "verdict").get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert page.locator("#lines > thead th[aria-sort]").inner_text().startswith("verdict")
    row = page.locator("#lines > tbody > tr:not([hidden])").first
    row.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert row.locator("details").first.get_attribute("open") is not None
    unreachable = page.evaluate(
        "[...document.querySelectorAll('a[href], button, summary, input, select')]"
        ".filter(e => e.tabIndex < 0).map(e => e.outerHTML.slice(0, 80))"
    )
    assert unreachable == []


def test_without_scripts_the_page_still_says_everything(open_page: Open) -> None:
    page = open_page(java_script_enabled=False).page
    assert page.locator(".chart img").first.is_visible()
    assert page.locator("noscript").first.inner_text()
    assert not page.locator(".filters").is_visible()
    assert page.locator("#AT-P3\\.2-full-ball").is_visible()


def test_printed_pages_have_still_pictures_and_no_controls(open_page: Open) -> None:
    page = open_page(scheme="dark").page
    chart = live(page)
    page.emulate_media(media="print")
    assert chart.locator("img").is_visible()
    assert not chart.locator(".vega").is_visible()
    assert not page.locator(".filters").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_time_until_the_page_answers_is_told(open_page: Open) -> None:
    page = open_page().page
    timing = page.evaluate(
        "(() => { const t = performance.getEntriesByType('navigation')[0]; return [t.domInteractive, t.loadEventEnd]; })()"
    )
    print(f"\ninteractive after {timing[0]:.0f} ms, loaded after {timing[1]:.0f} ms")
    field(page, "word").fill("P3.1")
    assert shown(page)
    assert all(anchor.startswith("AT-P3.1") for anchor in shown(page))


def test_hostile_text_is_shown_as_it_is(open_page: Open) -> None:
    page = open_page("FA-X1").page
    assert page_runs.HOSTILE in page.locator("tr#FA-X1").inner_text()


#: a person's questions: what is clicked (at most three times), and what then is in view or a
#: screen away
QUESTIONS: dict[str, tuple[list[str], str]] = {
    "does the statement on robustness hold, and under which threat?": (
        ["nav a[href='#findings']"],
        "#findings li:has(a[href='#AT-P3.2']) a.reading.OUT_OF_SCOPE:has-text('full-ball')",
    ),
    "how sure is that, and what is the proof?": (
        ["nav a[href='#findings']", "#findings a[href='#AT-P3.2-full-ball']"],
        "tr:target td[data-label=value], tr:target .read details[open]",
    ),
    "which of a paper's statements fail?": (
        [".matrix a[data-filter-paper=fa][data-filter-verdict=FAILS]"],
        "#FA-X1-one-way-of-two",
    ),
    "what is not met where a statement is out of scope, and what would it be?": (
        ["nav a[href='#ledger']", "#FA-X2-one-way-of-two summary"],
        "#FA-X2-one-way-of-two >> text=ε ≪ 1: 1.2 against 0.1",
    ),
    "what does the paper's statement look like here?": (
        ["nav a[href^='#run-patch-minima']"],
        "section:target .chart",
    ),
    "which statements does a figure support?": (
        ["nav a[href^='#run-patch-minima']"],
        "section:target .supports a.claim:has-text('AT-P3.2')",
    ),
    "which command makes it again, with which settings?": (
        ["nav a[href^='#run-patch-minima']", "section:target summary:has-text('Settings')"],
        "section:target .command >> text=featscope run patch-minima",
    ),
    "what changes in the variant of a run?": (
        ["nav a[href^='#run-patch-minima']:has-text('seeds')"],
        "section:target h3 .variant:has-text('seeds = [1]')",
    ),
    "what does vacuous mean?": (["nav a[href='#legend']"], "#legend .VACUOUS"),
    "which version, machine and profile made this, and when?": (
        ["nav a[href='#provenance']"],
        "#provenance >> text=torch",
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_in_three_clicks(question: str, open_page: Open) -> None:
    clicks, answer = QUESTIONS[question]
    assert len(QUESTIONS) == 10
    assert len(clicks) <= 3
    page = open_page().page
    for target in clicks:
        page.locator(target).first.click()
    found = page.locator(answer).first
    assert found.is_visible()
    page.wait_for_function(
        "e => { const r = e.getBoundingClientRect(); return r.bottom > -innerHeight && r.top < 2 * innerHeight; }",
        arg=found.element_handle(),
    )
