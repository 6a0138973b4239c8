"""The front door: every public name has an example that runs, results show themselves, and nothing heavy is
loaded before it is used."""

import doctest
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
import torch
from torch import nn

import featscope as fs
from featscope.front import FinishedRun, Listing
from featscope.plots.picture import Picture

HEAVY = ("torch", "numpy", "polars", "pydantic", "vl_convert", "typer", "rich")
PUBLIC = sorted(set(fs.__all__) - {"__version__"})


def fresh(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def behind(name: str) -> object:
    """What a public name stands for; `fs.claims` may be the package of that name, which calls the
    function."""
    return getattr(import_module(fs._DOORS[name]), name)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("front")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example_that_runs(name: str, folder: Path) -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(behind(name), name, globs={"folder": folder})
    assert len(test.examples) >= 2, "no example"
    assert 3 <= len(test.docstring.strip().splitlines()) <= 16
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.failures == 0
    assert runner.tries == len(test.examples)


def test_the_public_names_are_those_of_all() -> None:
    assert dir(fs) == sorted(fs.__all__)
    assert set(fs._DOORS) == set(PUBLIC)
    with pytest.raises(AttributeError, match="robustnes"):
        fs.robustnes  # noqa: B018
    for name in PUBLIC:
        assert callable(getattr(fs, name))


def test_the_bare_import_loads_nothing_heavy() -> None:
    code = f"import sys, featscope; print([m for m in {HEAVY} if m in sys.modules], featscope.__version__)"
    assert fresh(code) == f"[] {fs.__version__}\n"
    loaded = fresh(
        "import sys; old = set(sys.modules); import featscope; print(*sorted(set(sys.modules) - old))"
    ).split()
    assert [name for name in loaded if name.startswith("featscope")] == ["featscope"]


@pytest.mark.parametrize(
    "first",
    ["pass", "import featscope.experiments", "import featscope.claims.registry, featscope.experiments.spec"],
)
def test_packages_are_functions_whichever_comes_first(first: str) -> None:
    code = f"""
import featscope as fs, sys
{first}
a, b = fs.experiments(), fs.claims()
import featscope.experiments.registry, featscope.claims.ledger
from featscope import experiments, claims
assert experiments() == a == fs.experiments() and claims() == b == fs.claims()
assert fs.experiments.registry.experiment("signal-lemmas").paper == "cgro"
print("signal-lemmas" in a, "CG-LA.1" in b)
"""
    assert fresh(code) == "True True\n"


@pytest.mark.parametrize("name", ["claims", "experiments"])
def test_a_package_that_is_a_function_shows_the_function_s_help(name: str) -> None:
    package = import_module(f"featscope.{name}")
    assert getattr(fs, name) is package
    assert package.__doc__ == behind(name).__doc__
    assert inspect.signature(package) == inspect.signature(behind(name))
    assert isinstance(package, ModuleType)
    # Only packages with the name of a public function are doors.
    assert not callable(import_module("featscope.laws"))


def test_a_run_reads_with_types_and_shows_itself(folder: Path) -> None:
    run = fs.run("signal-lemmas", profile="quick", out=folder, rates=[0.5, 1.0], seeds=[4])
    assert isinstance(run, FinishedRun)
    assert run.settings.rates == (0.5, 1.0)
    assert run.settings.seeds == (4,)
    assert isinstance(run.rows, pl.DataFrame)
    assert all(isinstance(figure, Picture) for figure in run.figures().values())
    first, *rest = repr(run).splitlines()
    assert first == f"run of signal-lemmas in {run.path}, {run.rows.height} rows"
    told = f"{run.summary['A.1']:.4g}"
    assert rest[0] == f"  Lemma A.1: the slowest sequence as a share of its bound: {told}"
    assert f"share of its bound</td><td>{told}</td>" in run._repr_html_()
    again = fs.run("signal-lemmas", profile="quick", out=folder, rates=[0.5, 1.0], seeds=[4])
    assert again.path == run.path
    assert again.manifest == run.manifest
    anew = fs.run("signal-lemmas", profile="quick", out=folder, rates=[0.5, 1.0], seeds=[4], force=True)
    assert anew.manifest != run.manifest


def test_settings_are_those_of_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from featscope.cli.main import invoke

    run = fs.run("signal-lemmas", profile="quick", out=folder, seeds=2, goals=(2.0, 10.0))
    arguments = [
        "signal-lemmas",
        "--profile",
        "quick",
        "--seeds",
        "2",
        "--set",
        "goals=[2.0,10.0]",
        "--out",
        str(folder),
    ]
    assert invoke(["run", *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == run.summary
    assert str(run.path) in _said(invoke, ["run", *arguments], capsys)


def _said(invoke, arguments, capsys):
    assert invoke(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda out: fs.run("signal-lemas", out=out),
            "unknown experiment: signal-lemas; did you mean signal-lemmas",
        ),
        (
            lambda out: fs.run("signal-lemmas", out=out, ratess=[1.0]),
            "unknown key: ratess; did you mean rates",
        ),
        (lambda out: fs.run("patch-fig3", out=out, law__dd=3), "unknown key: law.dd; did you mean law.d"),
        (
            lambda out: fs.run("signal-lemmas", out=out, profile="quik"),
            "unknown profile: quik; did you mean quick",
        ),
        (lambda out: fs.run("signal-lemmas", out=out, seeds=0), "seeds must be at least 1: seeds=0"),
        (lambda out: fs.run("signal-lemmas", out=out, seeds=[1, 1]), "seeds must differ"),
        (lambda out: fs.check("CG-LA", out=out), "unknown claim: CG-LA; did you mean CG-LA."),
        (lambda out: fs.check(paper="xyz", out=out), "unknown paper: xyz"),
        (lambda out: fs.check("CG-LA.1", jobs=0, out=out), "jobs must be at least 1"),
    ],
)
def test_bad_input_says_the_remedy_and_leaves_nothing(call, told: str, tmp_path: Path) -> None:
    with pytest.raises(fs.BadInput) as caught:
        call(tmp_path / "runs")
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_a_check_is_a_list_that_shows_itself_as_a_table(folder: Path) -> None:
    lines = fs.check("CG-LA.1", "CG-LA.2", profile="quick", out=folder)
    assert [line.id for line in lines] == ["CG-LA.1", "CG-LA.2"]
    assert {"runs"} <= set(lines[0].evidence)
    head, first, second = repr(lines).splitlines()
    assert head.split() == ["claim", "reading", "verdict", "value", "rule", "interval", "statement"]
    assert first.split()[0] == "CG-LA.1"
    assert f"{lines[1].value:.4g}" in second
    assert lines._repr_html_().count("<tr>") == 3
    lines.reverse()
    assert repr(lines).splitlines()[1].startswith("CG-LA.2")


def test_listings_escape_html_and_align() -> None:
    shown = Listing(["<b>", "a"], {"name": str, "twice": lambda name: name * 2})
    assert repr(shown) == "name  twice\n<b>   <b><b>\na     aa"
    assert shown == ["<b>", "a"]
    assert "<td>&lt;b&gt;</td><td>&lt;b&gt;&lt;b&gt;</td>" in shown._repr_html_()
    assert repr(Listing([], {"name": str})) == "name"


def linear(scale: float = 1.0) -> nn.Module:
    """A linear classifier of two classes; ‖w‖₁ of the difference is 4·scale on 2×2 images."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False))
    model[1].weight.data = scale * torch.tensor([[0.5] * 4, [-0.5] * 4])
    return model.eval()


def test_robustness_of_a_linear_network_is_what_its_margins_say() -> None:
    """Half of the images are at distance .05 from the boundary (through 0, seen from .5) in ℓ∞, half at
    .2."""
    model = nn.Sequential(_Shift(), linear()).eval()
    x = torch.full((20, 1, 2, 2), 0.55)
    x[10:] = 0.3
    y = torch.tensor([0] * 10 + [1] * 10)
    y[0] = 1
    found = fs.robustness(model, x, y, eps=0.1)
    assert found.clean == 0.95
    assert found.accuracy == 0.5
    assert found.robust.tolist() == [False] * 10 + [True] * 10
    assert found.interval.low < 0.5 < found.interval.high
    assert float(found.delta.abs().amax()) <= 0.1 + 1e-6
    fooled = slice(1, 10)
    assert bool((model(x + found.delta).argmax(-1) != y)[fooled].all())
    assert found.trusted
    lines = repr(found).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("robust accuracy at most 50.0% (")
    assert "tensor" not in repr(found)
    curve = fs.robustness_curve(model, x, y, radii=[0.04, 0.1, 0.21])
    assert curve.accuracy == [0.95, 0.5, 0.0]
    assert curve.clean == 0.95
    assert [i.value for i in curve.interval] == curve.accuracy
    assert curve.fooled_at.tolist() == pytest.approx([0.0] + [0.1] * 9 + [0.21] * 10)
    assert (
        repr(curve).splitlines()[0]
        == "robust accuracy (Linf): at most 95.0% at 0.04, 50.0% at 0.1, 0.0% at 0.21"
    )
    assert len(repr(curve).splitlines()) == 3
    # ‖w‖₂-distance is twice the ℓ∞-distance for four equal weights.
    assert fs.robustness_curve(model, x, y, radii=[0.09, 0.11, 0.39, 0.41], norm="L2").accuracy == [
        0.95,
        0.5,
        0.5,
        0.0,
    ]


class _Shift(nn.Module):
    def forward(self, x):
        return x - 0.5


def test_steps_count_for_vectors_as_for_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search without gradients takes vectors too; of anything else it is left out, which is said; steps
    reach the attacks all the same."""
    from featscope.attacks import suite

    asked = []
    monkeypatch.setattr(
        suite,
        "ensemble",
        lambda steps=50, queries=500, make=suite.ensemble: asked.append(steps) or make(steps),
    )
    x, y = torch.rand(6, 4), torch.zeros(6, dtype=torch.long)
    found = fs.robustness(linear(), x, y, eps=0.01, steps=3)
    assert set(asked) == {3}
    assert found.trusted
    rows = torch.nn.Sequential(torch.nn.Flatten(), linear())
    found = fs.robustness(rows, x[:, None], y, eps=0.01, steps=3)
    assert not found.trusted
    assert any("no search without gradients" in text for text in found.warnings)
    assert repr(found).splitlines()[2].startswith("not to be trusted: no search without gradients")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"x": [[0.5]]}, "images must be a torch tensor"),
        ({"y": torch.zeros(3)}, "labels must be class numbers"),
        ({"eps": -1.0}, "eps must be at least 0"),
        ({"norm": "linf"}, "norm"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"bounds": (1.0, 0.0)}, "bounds need low < high"),
    ],
)
def test_robustness_refuses_in_one_line(options: dict[str, object], told: str) -> None:
    usual = {"x": torch.rand(3, 1, 2, 2), "y": torch.zeros(3, dtype=torch.long), "eps": 0.1}
    with pytest.raises(fs.BadInput, match=told):
        fs.robustness(linear(), **{**usual, **options})


def test_a_curve_needs_radii_in_order() -> None:
    x, y = torch.rand(3, 1, 2, 2), torch.zeros(3, dtype=torch.long)
    for radii in ([], [0.2, 0.1]):
        with pytest.raises(fs.BadInput):
            fs.robustness_curve(linear(), x, y, radii=radii)


def test_a_run_draws_its_figures(folder: Path) -> None:
    figures = fs.run("patch-minima", profile="quick", out=folder, points=50, attacked=5).figures()
    assert [(name, type(figure)) for name, figure in figures.items()] == [("minima", Picture)]
