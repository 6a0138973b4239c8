"""A browser for the page: Debian's Chromium through playwright; where one of them is missing, these tests are
skipped with a message."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import page_runs
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip(
        "playwright.sync_api", reason="the page's tests need playwright: pip install -e '.[page]'"
    )
    if CHROMIUM is None:
        pytest.skip("the page's tests need Chromium: apt install chromium")
    with api.sync_playwright() as play:
        # As root there is no sandbox; the page that is opened is our own.
        opened = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def page_file(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from featscope.report.collect import collect
    from featscope.report.page import write_page

    folder = tmp_path_factory.mktemp("browser")
    write_page(collect([page_runs.make(folder / "runs")]), folder / "page.html")
    return folder / "page.html"


class Watched:
    """An open page, and all that it complained of or asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on(
            "console",
            lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))


Open = Callable[..., Watched]


@pytest.fixture
def open_page(browser: Any, page_file: Path) -> Iterator[Open]:
    contexts = []

    def opened(anchor: str = "", width: int = 1600, scheme: str = "light", **options: Any) -> Watched:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, **options
        )
        contexts.append(context)
        watched = Watched(context.new_page())
        watched.page.goto(page_file.as_uri() + (f"#{anchor}" if anchor else ""))
        return watched

    yield opened
    for context in contexts:
        context.close()
