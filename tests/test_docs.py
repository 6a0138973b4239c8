"""The pages are in step with the code: what they name is there, what they print is what runs, what is generated is
as generated, and every link and picture leads somewhere."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import featscope
import notebooks
import page_figures
import reproducibility
import tutorials
from featscope.claims import book
from featscope.claims.registry import claims
from featscope.cli.main import GROUPS, VERBS
from featscope.report.figures import drawings

ROOT = next(path for path in Path(__file__).parents if (path / "pyproject.toml").exists())
DOCS = ROOT / "docs"
PACKAGE = Path(featscope.__file__).parent
BUILT = DOCS / "_build"
SITE = [path for path in sorted(DOCS.rglob("*.md")) if BUILT not in path.parents]
PAGES = [*SITE, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
FOLDERS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
#: a folder that was there once, so that a page that still names it is noticed
GONE = ["theory"]
NAMED = re.compile(rf"`((?:{'|'.join(FOLDERS + GONE)})/[\w/]+)(?:\.(\w+))?`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
HISTORY = (DOCS / "rules-history.md").read_text(encoding="utf-8")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


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


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert stale(read(page)) == []


def test_the_search_finds_what_is_gone() -> None:
    text = "`theory/claim.py` `claims/judging.soft` `claims/judging.sofft` `test_layers.py` `test_no.py` `laws/patches.py` `papers/at/`"
    assert stale(text) == ["theory/claim", "claims/judging.sofft", "test_no.py"]


def anchors(text: str) -> set[str]:
    """The addresses of a page's headings: Sphinx's, where every run of other signs is a hyphen."""
    return {slug(title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def dead_links(page: Path, text: str) -> list[str]:
    """Relative links of a page to files or headings that are not there."""
    dead = []
    for target, anchor in LINK.findall(text):
        path = (page.parent / target).resolve() if target else page
        known = path.exists() and (not anchor or anchor in anchors(read(path)))
        dead += [] if known else [f"{target}#{anchor}"]
    return dead


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    assert dead_links(page, read(page)) == []
    assert [target for alt, target in IMAGE.findall(read(page)) if not alt] == []


def test_a_dead_link_is_found() -> None:
    text = "[a](claims.md) [b](no.md) [c](rules-history.md#at-p3-2) [d](rules-history.md#at-p9-9)"
    assert dead_links(DOCS / "at.md", text) == ["no.md#", "rules-history.md#at-p9-9"]


def test_every_page_is_on_the_site() -> None:
    """A page that no table of contents lists is lost to readers."""
    listed = set()
    for page in SITE:
        for body in re.findall(r"```\{toctree\}\n(.*?)```", read(page), re.DOTALL):
            names = [line for line in body.splitlines() if line and not line.startswith(":")]
            listed |= {path.resolve() for name in names for path in page.parent.glob(f"{name}.md")}
    assert {page for page in SITE if page.resolve() not in listed} == {DOCS / "index.md"}


# --- code


@pytest.mark.parametrize("name", tutorials.TUTORIALS)
def test_a_tutorial_prints_what_it_says(name: str, tmp_path: Path) -> None:
    shown = [block.shown or "" for block in tutorials.blocks(read(ROOT / name))]
    printed = tutorials.run_blocks(ROOT / name, tmp_path)
    assert len(printed) > 3
    assert [tutorials.differences(a, b) for a, b in zip(shown, printed, strict=True)] == [[] for _ in shown]


OTHERS = [page for page in SITE if page.parent.name in ("concepts", "how-to") or page.name == "start.md"]


@pytest.mark.parametrize("page", OTHERS, ids=named)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    shown = [block.shown for block in tutorials.blocks(read(page))]
    printed = tutorials.run_blocks(page, tmp_path)
    for said, output in zip(shown, printed, strict=True):
        assert output
        assert said is None or tutorials.differences(said, output) == []


def test_another_output_is_noticed() -> None:
    page = "radius: 1.00, exact: True\n"
    assert tutorials.differences(page, "radius:  1.01, exact: True\n") == []
    assert tutorials.differences(page, "radius: 1.05, exact: True\n") == [("1.00", "1.05")]
    assert tutorials.differences(page, "radius: 1.00, exact: False\n") != []
    assert tutorials.differences(page, page + page) != []
    assert tutorials.differences(page, "") != []


def test_outputs_are_put_below_their_code() -> None:
    page = "a\n\n```python\nprint(1)\n```\n\n```text\n0\n```\n\nb\n\n```python\nx = 1\n```\n"
    assert tutorials.refreshed(page, ["1\n", ""]) == page.replace("```text\n0", "```text\n1")


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_a_notebook_is_its_page(name: str) -> None:
    page = ROOT / name
    kept = read(page.with_suffix(".ipynb"))
    assert kept == notebooks.notebook(read(page)), "make docs-made writes it again"
    cells = json.loads(kept)["cells"]
    code = ["".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code"]
    assert code == [block.code for block in tutorials.blocks(read(page))]
    assert not any("{download}" in line for cell in cells for line in cell["source"])
    assert len({cell["id"] for cell in cells}) == len(cells)


# --- generated pages and pictures


def test_the_page_on_reproducibility_is_as_generated() -> None:
    assert read(DOCS / "reproducibility.md") == reproducibility.page(), "make docs-made writes it again"


def test_the_licence_of_every_data_set_is_said() -> None:
    assert reproducibility.DATASETS.keys() <= reproducibility.LICENCES.keys()


def test_pictures_are_figures_of_experiments_and_are_shown() -> None:
    assert [
        name for name, (run, figure) in page_figures.PICTURES.items() if figure not in drawings(run)
    ] == []
    shown = {Path(target).name for page in PAGES for _, target in IMAGE.findall(read(page))}
    kept = {path.name for path in (DOCS / "figures").iterdir()}
    assert kept == shown
    assert {name for name in kept if name.endswith(".png")} == set(page_figures.PICTURES)


# --- what pages say about claims


def test_the_history_names_claims() -> None:
    ids = re.findall(r"^### (.+)$", HISTORY, re.MULTILINE)
    assert len(ids) > 40
    assert [name for name in ids if name not in claims()] == []
    assert len({slug(name) for name in ids}) == len(ids)


VERDICTS = {"HOLDS", "FAILS", "OUT_OF_SCOPE", "VACUOUS", "INCONCLUSIVE"}
FINDINGS = [DOCS / f"{name}.md" for name in ("at", "fa", "cgro", "ep", "images-at", "images-fa")]


class Row(NamedTuple):
    """A row of a verdict table: the claims (those of the row above where it names none), its readings in groups,
    and the verdict of each group."""

    claims: list[str]
    groups: list[list[str]]
    verdicts: list[str]


def rows_with_verdicts(page: Path) -> list[Row]:
    found: list[Row] = []
    for row in re.findall(r"^\|(.*)\|$", read(page), re.MULTILINE):
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) == 4 and re.split(r"[ ,]", cells[2])[0] in VERDICTS:
            ids = [name for name in re.findall(r"[A-Z]+-[\w.*-]+", cells[0]) if name in claims()]
            verdicts = cells[2].split(" / ")
            parts = cells[1].split(" / ") if len(verdicts) > 1 else [cells[1]]
            groups = [re.findall(r"`([^`]+)`", part) for part in parts]
            found.append(Row(ids or found[-1].claims, groups, verdicts))
    return found


@pytest.mark.parametrize("page", [*FINDINGS, ROOT / "README.md"], ids=named)
def test_claims_and_readings_in_tables_are_there(page: Path) -> None:
    rows = rows_with_verdicts(page)
    assert len(rows) > 4
    for row in rows:
        known = {reading.name for name in row.claims for reading in claims()[name].readings}
        assert {reading for group in row.groups for reading in group} <= known, row.claims
        assert len(row.groups) == len(row.verdicts), row


def disagreements(page: Path, lines: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """Where a page's verdict is not the ledger's: claim, reading, what the page says, what the ledger says."""
    judged = {(line["id"], line["reading"]): line for line in lines}
    found = []
    for row in rows_with_verdicts(page):
        for group, said in zip(row.groups, row.verdicts, strict=True):
            for place in ((name, reading) for name in row.claims for reading in group):
                if place in judged and said != (told := _verdict(judged[place])):
                    found.append((*place, said, told))
    return found


def _verdict(line: Mapping[str, Any]) -> str:
    would = line["would_be"]
    return line["verdict"] + (f", would {would.removesuffix('S')}" if would in ("HOLDS", "FAILS") else "")


def test_another_verdict_is_noticed() -> None:
    line = {"id": "AT-P3.2", "reading": "full-ball", "verdict": "OUT_OF_SCOPE", "would_be": "FAILS"}
    assert disagreements(DOCS / "at.md", [line]) == []
    assert len(disagreements(DOCS / "at.md", [{**line, "would_be": "HOLDS"}])) == 1
    assert len(disagreements(DOCS / "at.md", [{**line, "verdict": "FAILS", "would_be": None}])) == 1


#: the dated ledger of the package, written from finished runs by tools/publish_ledger.py
LEDGER = book.SHIPPED / book.NAME


@pytest.mark.skipif(not LEDGER.exists(), reason="no dated ledger")
def test_verdicts_on_pages_are_those_of_the_ledger() -> None:
    lines = json.loads(read(LEDGER))["lines"]
    assert [found for page in (*FINDINGS, ROOT / "README.md") for found in disagreements(page, lines)] == []
    synthetic = [line for line in lines if not any(name.startswith("image-") for name in line["experiments"])]
    count = Counter(line["verdict"] for line in synthetic)
    sentence = (
        f"Of {len(synthetic)} readings on synthetic data {count['HOLDS']} HOLD, {count['FAILS']} FAIL, "
        f"{count['INCONCLUSIVE']} are INCONCLUSIVE, {count['OUT_OF_SCOPE']} OUT_OF_SCOPE and {count['VACUOUS']} VACUOUS."
    )
    assert sentence in read(ROOT / "README.md")


def test_the_page_of_the_api_has_every_public_name() -> None:
    shown = set(
        re.findall(r":: featscope\.(?:front\.|probe\.run\.)?(\w+)$", read(DOCS / "api.md"), re.MULTILINE)
    )
    assert {name for name in featscope.__all__ if name != "__version__"} <= shown


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_verbs_on_a_page_are_verbs(page: Path) -> None:
    verbs = {*VERBS, *GROUPS}
    named_here = re.findall(r"(?:`|^    |\$ )featscope ([a-z]+)", read(page), re.MULTILINE)
    assert [verb for verb in named_here if verb not in verbs] == []


# --- workflows


def test_actions_are_pinned_and_targets_exist() -> None:
    flows = [read(path) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))]
    assert len(flows) == 3
    used = [line for flow in flows for line in re.findall(r"uses: (\S+)", flow)]
    assert [name for name in used if not re.search(r"@(v\d+|release/v\d+)$", name)] == []
    targets = set(re.findall(r"^([\w-]+):", read(ROOT / "Makefile"), re.MULTILINE))
    assert {name for flow in flows for name in re.findall(r"run: make ([\w-]+)", flow)} <= targets


def test_the_extra_for_docs_has_what_the_configuration_loads() -> None:
    extra = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]["docs"]
    names = {re.split(r"[<>=]", requirement)[0] for requirement in extra}
    assert names == {"sphinx", "furo", "myst-parser"}
    loaded = set(
        re.findall(r'"(\w+)(?:\.[\w.]+)?"', re.search(r"extensions = \[.*\]", read(DOCS / "conf.py"))[0])
    )
    assert loaded == {"myst_parser", "sphinx"}
