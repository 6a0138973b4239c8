"""A module imports only from its own package and from layers above it in the design's list; no paper imports
another; no cycle."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import featscope

ROOT = Path(featscope.__file__).parent
LAYERS = [
    "core",
    "certificates",
    "laws",
    "images",
    "nets",
    "attacks",
    "dynamics",
    "features",
    "experiments",
    "claims",
    "sweeps",
    "plots",
    "papers",
    "report",
    "probe",
    "lab",
    "front",
    "bench",
    "cli",
    "__main__",
]
MODULES = sorted(ROOT.rglob("*.py"))


def layer(parts: tuple[str, ...]) -> int | None:
    return LAYERS.index(parts[0]) if parts and parts[0] in LAYERS else None


def module_of(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


NAMES = {module_of(path) for path in MODULES}


def imported(path: Path) -> list[tuple[str, ...]]:
    """The package's modules that a file imports anywhere, also inside functions and for types alone."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            inner = [f"{base}.{alias.name}" for alias in node.names]
            names += [name if tuple(name.split(".")[1:]) in NAMES else base for name in inner]
    return [tuple(name.split(".")[1:]) for name in names if name.split(".")[0] == "featscope"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_upwards(path: Path) -> None:
    own = module_of(path)
    mine = layer(own)
    if mine is None:
        assert own == (), f"{path} belongs to no layer"
        return
    for target in imported(path):
        theirs = layer(target)
        assert theirs is None or theirs <= mine, (
            f"{'.'.join(own)} imports {'.'.join(target)} from a layer below"
        )
        assert own[0] != "probe" or target[:1] != ("papers",), f"{'.'.join(own)} imports a paper"
        if own[0] == "papers" and target[:1] == ("papers",):
            assert target[:2] == own[:2], f"{'.'.join(own)} imports {'.'.join(target)} of another paper"


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = {
        module_of(path): {t for t in imported(path) if t in NAMES and t != module_of(path)}
        for path in MODULES
    }
    for own, targets in graph.items():
        # A package that gathers its own modules is imported with each of them; that is no cycle of subjects.
        graph[own] = {t for t in targets if own[: len(t)] != t}
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)


#: one meaning for different things: the gradient of each network, batches of each law put together; what the
#: front door calls as the library does
SHARED = {"input_gradient", "stack", "check", "claims", "experiments", "run", "sweep"}


def sources_of(files: list[Path]) -> dict[str, set[tuple[str, ...]]]:
    """Name → the modules that it is imported from; modules themselves go without."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("featscope"):
                base = tuple((node.module or "").split(".")[1:])
                for alias in node.names:
                    if (*base, alias.name) not in NAMES:
                        found.setdefault(alias.name, set()).add(base)
    return found


@pytest.mark.parametrize("paper", ["at", "fa", "cgro", "ep"])
def test_a_name_that_others_import_means_one_thing(paper: str) -> None:
    """In the whole package but for the papers' rooms: two papers may each have their Figure 3."""
    sources = sources_of(MODULES)
    clashes = {}
    for name in sources.keys() - SHARED - {"EXPERIMENTS", "CLAIMS", "FIGURES"}:
        here = {base for base in sources[name] if base[:1] != ("papers",) or base[1:2] == (paper,)}
        if len(here) > 1:
            clashes[name] = sorted(".".join(base) for base in here)
    assert clashes == {}


def test_a_name_of_two_modules_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from featscope.core.stats import wilson\nfrom featscope import claims\n")
    (tmp_path / "b.py").write_text("from featscope.laws.patches import wilson\n")
    assert sources_of(sorted(tmp_path.iterdir())) == {"wilson": {("core", "stats"), ("laws", "patches")}}
