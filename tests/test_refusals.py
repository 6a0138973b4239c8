"""What a Python user may get wrong: one line that says the rule, the value and the remedy."""

import re
from pathlib import Path

import pytest
import torch

import featscope as fs

X, Y = torch.full((4, 1, 3, 3), 0.5), torch.tensor([0, 1, 0, 1])
WEIGHTS = torch.linspace(-1, 1, 18).reshape(2, 9)
INFINITE = float("inf")


def net(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1) @ WEIGHTS.T


CASES = {
    "radii are a list of numbers: radii=0.1": lambda: fs.robustness_curve(net, X, Y, radii=0.1),
    "eps must be at least 0.0: eps=-0.1": lambda: fs.robustness_curve(net, X, Y, radii=[-0.1]),
    "a curve needs radii": lambda: fs.robustness_curve(net, X, Y, radii=[]),
    "radii must be ascending": lambda: fs.robustness_curve(net, X, Y, radii=[0.2, 0.1]),
    "eps must be a number: eps='a'": lambda: fs.robustness_curve(net, X, Y, radii=["a"]),
    "bounds are two numbers: bounds=1": lambda: fs.robustness(net, X, Y, eps=0.1, bounds=1),
    "bounds are two numbers: bounds=(1,)": lambda: fs.robustness(net, X, Y, eps=0.1, bounds=(1,)),
    "bounds must be a number: bounds='a'": lambda: fs.robustness(net, X, Y, eps=0.1, bounds=("a", "b")),
    "steps must be a whole number: steps=1.5": lambda: fs.robustness(net, X, Y, eps=0.1, steps=1.5),
    "steps must be a whole number: steps=True": lambda: fs.robustness(net, X, Y, eps=0.1, steps=True),
    "batch must be a whole number": lambda: fs.robustness(net, X, Y, eps=0.1, batch=1.5),
    "seed must be a whole number": lambda: fs.robustness(net, X, Y, eps=0.1, seed="a"),
    "eps must be finite: eps=inf": lambda: fs.robustness(net, X, Y, eps=INFINITE),
    "eps must be a number: eps='8/255'": lambda: fs.robustness(net, X, Y, eps="8/255"),
    "eps must be a number: eps=True": lambda: fs.robustness(net, X, Y, eps=True),
    "swap the two arguments": lambda: fs.robustness(net, Y, X, eps=0.1),
    "use x[None] and y[None]": lambda: fs.robustness(net, X[0], Y[0], eps=0.1),
    "labels of shape (1,); use x[None]": lambda: fs.robustness(net, X[0].expand(3, 3, 3), Y[:1], eps=0.1),
    "claim must be given by name: ['AT-P3.2']": lambda: fs.check(["AT-P3.2"]),
    "jobs must be a whole number": lambda: fs.check("CG-LA.1", jobs=1.5),
    "runs need a folder, and this is a file": lambda: fs.run("signal-lemmas", out=__file__),
    "runs need a folder": lambda: fs.check("CG-LA.1", out=__file__),
    "seeds must be a whole number: seeds='2'": lambda: fs.run("signal-lemmas", seeds="2"),
    "seeds must be a whole number: seeds=True": lambda: fs.run("signal-lemmas", seeds=True),
    "experiment must be given by name: 3": lambda: fs.run(3),
    "profile must be given by name: None": lambda: fs.run("signal-lemmas", profile=None),
    "rates must not be empty": lambda: fs.run("signal-lemmas", rates=[]),
    "n must be a whole number: n=2.5": lambda: fs.PatchLaw().sample(2.5),
    "n must be a whole number: n=True": lambda: fs.ClusterLaw().sample(True),
    "n must be at least 1: n=0": lambda: fs.SignalLaw().sample(0),
    "give a PatchSetting": lambda: fs.PatchLaw().check(None),
    "give a SignalSetting": lambda: fs.SignalLaw().check(None),
    "unknown name for alpha: gauss; choose one of": lambda: fs.PatchLaw(alpha={"name": "gauss"}),
    "alpha: a number, or a name with its parts": lambda: fs.PatchLaw(alpha="gauss"),
    "seed must be at least 0": lambda: fs.stream(-1),
}


@pytest.mark.parametrize("said", CASES)
def test_it_is_refused_in_one_line(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fs.BadInput, match=re.escape(said)) as caught:
        CASES[said]()
    assert "\n" not in str(caught.value)
    assert "function-before" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("eps", "warned"), [(0.4, False), (1.0, True)])
def test_a_radius_that_covers_everything_is_said(eps: float, warned: bool) -> None:
    found = fs.robustness(net, X, Y, eps=eps, steps=2)
    assert any("covers the range of the inputs" in text for text in found.warnings) == warned
