"""Modules, functions and tests that the pages name are there."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import featscope

ROOT = next(path for path in Path(__file__).parents if (path / "pyproject.toml").exists())
PACKAGE = Path(featscope.__file__).parent
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
#: a folder that was there once, so that a page that still names it is noticed
GONE = ["theory"]
NAMED = re.compile(rf"`((?:{'|'.join(FOLDERS + GONE)})/[\w/]+)(?:\.(\w+))?`")


def stale(text: str) -> list[str]:
    """What a page names as `folder/module.py` or `folder/module.function` and is not there."""
    found = []
    for module, after in NAMED.findall(text):
        path = PACKAGE / module
        if path.with_suffix(".py").exists():
            if after not in ("", "py") and not hasattr(
                import_module(f"featscope.{module.replace('/', '.')}"), after
            ):
                found.append(f"{module}.{after}")
        elif after or not path.is_dir():
            found.append(module)
    tests = [name for name in re.findall(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`", text) if not _is_test(name)]
    return found + tests


def _is_test(name: str) -> bool:
    return any(str(path).endswith("/" + name) for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert stale(page.read_text(encoding="utf-8")) == []


def test_the_search_finds_what_is_gone() -> None:
    text = "`theory/claim.py` `claims/judging.soft` `claims/judging.sofft` `test_layers.py` `test_no.py` `laws/patches.py` `papers/at/`"
    assert stale(text) == ["theory/claim", "claims/judging.sofft", "test_no.py"]
