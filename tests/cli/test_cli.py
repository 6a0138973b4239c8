"""The command line as a user meets it: one line and exit 2 for bad input, one JSON document for --json."""

import json
from pathlib import Path

import pytest

from featscope.cli import main as cli
from featscope.experiments import runner
from featscope.experiments.run import find_runs

BAD = [
    ["run", "patch-fig3", "--set", "eps=-1"],
    ["run", "patch-fig3", "--set", "eps=NaN"],
    ["run", "patch-fig3", "--set", "eps=abc"],
    ["run", "patch-fig3", "--set", "k=10", "--set", "d=8"],
    ["run", "patch-fig3", "--set", "robust_patches=17"],
    ["run", "patch-fig3", "--set", "alpha=-2"],
    ["run", "patch-fig3", "--set", "q=1"],
    ["run", "patch-fig3", "--set", "rho=0"],
    ["run", "patch-fig3", "--set", "train_size=0"],
    ["run", "patch-fig3", "--set", "clip=patchwise"],
    ["run", "patch-fig3", "--set", "clip=coefficient", "--profile", "quick"],
    ["run", "patch-fig3", "--set", "norm=L1"],
    ["run", "patch-fig3", "--set", "frame=random"],
    ["run", "patch-fig3", "--set", "norm=L2", "--set", "clip=coordinate"],
    ["run", "patch-fig3", "--set", "standard.batch_size=1000"],
    ["run", "patch-fig3", "--set", "learning_rate=1"],
    ["run", "patch-fig3", "--set", "epss=1"],
    ["run", "patch-fig3", "--set", "eps"],
    ["run", "patch-fig3", "--set", "arms=[]"],
    ["run", "patch-fig3", "--set", 'arms=["standard","standard"]'],
    ["run", "patch-fig3", "--set", "evaluation.radii=[-1]"],
    ["run", "patch-fig3", "--set", "law.alpha=1e200"],
    ["run", "patch-fig3", "--set", "law.d=1000000000000"],
    ["run", "patch-minima", "--set", "gammas=[]"],
    ["run", "patch-fig3", "--set", "eps=true"],
    ["run", "patch-fig3", "--set", "eps=1/0"],
    ["run", "patch-fig3", "--set", "eps=1", "--set", "ε=2"],
    ["run", "patch-fig3", "--set", "evaluation.radii=[0.2,0.1]"],
    ["run", "patch-fig3", "--seeds", "100000000"],
    ["run", "patch-fig3", "--seeds", "2", "--set", "seeds=[3]"],
    ["run", "patch-fig3", "--set", "standard.epochs=1000000000000"],
    ["run", "signal-lemmas", "--set", "rates=[]"],
    ["run", "signal-stages", "--set", "radii=[]"],
    ["run", "clusters-fig3", "--set", "radii=[-1]"],
    ["run", "patch-minima", "--set", "gammas=[1e308]"],
    ["run", "patch-minima", "--set", "law.d=7"],
    ["run", "patch-recursion", "--set", "robust_patches=0"],
    ["run", "patch-recursion", "--set", "dtype=float32"],
    ["run", "patch-scaling", "--set", "dimensions=[100,1000,1e23]"],
    ["run", "patch-noise", "--set", "law.d=7"],
    ["run", "patch-fig3", "--profile", "fast"],
    ["run", "patch-fig3", "--seeds", "0"],
    ["run", "patch-fgi3"],
    ["run"],
    ["run", "patch-minima", "--set", "gammas=[-1]"],
    ["run", "patch-scaling", "--set", "dimensions=[100]"],
    ["run", "patch-scaling", "--set", "c0=2"],
    ["check", "AT-P9.9"],
    ["check", "--paper", "xyz"],
    ["check", "AT-P3.1", "--jobs", "-1"],
    ["report", "no-such-folder"],
    ["bench", "nothing"],
    ["nonsense"],
    ["run", "patch-fig3", "--nonsense"],
]


@pytest.mark.parametrize("arguments", BAD, ids=lambda a: " ".join(a[-2:]))
def test_bad_input_is_one_line_and_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    extra = (
        ["--out", str(tmp_path / "runs")] if arguments[0] in ("run", "check") and len(arguments) > 1 else []
    )
    assert cli.invoke([*arguments, *extra]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert ";" in err
    assert not (tmp_path / "runs").exists() or find_runs(tmp_path / "runs") == []


def test_json_is_one_document_and_nothing_else(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = [
        "run",
        "patch-minima",
        "--profile",
        "quick",
        "--set",
        "points=200",
        "--out",
        str(tmp_path),
        "--json",
    ]
    assert cli.invoke(arguments) == 0
    out, _ = capsys.readouterr()
    assert set(json.loads(out)) == {"robust", "non-robust"}
    folder = find_runs(tmp_path)[0].path
    names = {p.name for p in folder.iterdir()}
    assert {
        "spec.json",
        "manifest.json",
        "rows.parquet",
        "summary.json",
        "tensors.safetensors",
        "figures",
        "report.html",
    } <= names
    assert (folder / "figures" / "minima.png").stat().st_size > 10000
    assert json.loads((folder / "summary.json").read_text()) == json.loads(out)


def test_fig3_prints_the_promised_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = [
        "--set",
        "standard.epochs=30",
        "--set",
        "adversarial.epochs=30",
        "--set",
        "evaluation.every=30",
        "--set",
        "evaluation.points=10",
    ]
    arguments = [
        "run",
        "patch-fig3",
        "--profile",
        "quick",
        "--seeds",
        "2",
        *small,
        "--out",
        str(tmp_path),
        "--json",
    ]
    assert cli.invoke(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    for arm in ("standard", "adversarial"):
        assert len(found[arm]["u"]) == len(found[arm]["v"]) == 2
        assert set(found[arm]["feature_accuracy"]) == {"robust", "non_robust"}
        assert {"training-attack", "feature-span", "full-ball"} <= set(found[arm]["robust_test"])
        for bracket in found[arm]["robust_test"].values():
            assert 0 <= bracket["lower"] <= bracket["upper"] <= 1
    assert "phase_switch" in found["adversarial"]


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"patch-fig3", "patch-minima", "patch-scaling"} <= {e["name"] for e in found["experiments"]}
    assert {"AT-P3.2", "AT-T4.4"} <= {c["id"] for c in found["claims"]}
    assert cli.invoke([]) == 0


def test_check_and_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    assert (
        cli.invoke(
            ["check", "AT-P3.1", "AT-P3.2", "--profile", "quick", "--out", runs, "--json", "--jobs", "1"]
        )
        == 0
    )
    lines = json.loads(capsys.readouterr().out)
    assert all({"id", "reading", "verdict", "value", "bound", "evidence"} <= set(line) for line in lines)
    verdicts = {(line["id"], line["reading"]): line["verdict"] for line in lines}
    assert verdicts["AT-P3.2", "full-ball"] == "OUT_OF_SCOPE"
    assert verdicts["AT-P3.1", "full-ball"] == "HOLDS"
    assert (
        cli.invoke(
            ["run", "patch-minima", "--profile", "quick", "--set", "points=100", "--out", runs, "--json"]
        )
        == 0
    )
    page = tmp_path / "page.html"
    assert cli.invoke(["report", runs, "--out", str(page)]) == 0
    text = page.read_text()
    assert "data:image/png;base64," in text
    assert "patch-minima" in text
    assert "with points = 100<" in text
    assert text.index("featscope run patch-minima --profile quick<") < text.index("--set points=100<")


def test_a_full_disk_and_an_interrupt_are_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runner, "run", full)
    assert cli.invoke(["run", "patch-minima"]) == 2
    assert "no space" in capsys.readouterr().err

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", stopped)
    assert cli.invoke(["run", "patch-minima"]) == 130
    assert "goes on from there" in capsys.readouterr().err
