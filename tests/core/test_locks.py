"""Locks of single files: one writer at a time, and nothing left beside the user's files."""

import threading
from pathlib import Path

import pytest

from featscope.core.locks import locked_file
from featscope.report.page import Content, write_page


def test_a_page_has_no_company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_page(Content(()), tmp_path / "page.html")
    monkeypatch.chdir(tmp_path)
    write_page(Content(()), Path("page.html"))
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(("other", "waits"), [("page.html", True), ("other.html", False)])
def test_a_file_has_one_writer_by_whatever_path(
    other: str, waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    order: list[str] = []
    got = threading.Event()

    def second() -> None:
        with locked_file(Path(other)):
            order.append("second")
            got.set()

    thread = threading.Thread(target=second)
    with locked_file(tmp_path / "page.html"):
        thread.start()
        got.wait(0.3 if waits else 30)
        order.append("first done")
    thread.join(30)
    assert order == (["first done", "second"] if waits else ["second", "first done"])
