"""The page about one's own network and the README run as they are printed, and a foreign network's layers are
what its submodules return."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from featscope.core.errors import BadInput
from featscope.features.invert import InversionSpec, invert
from featscope.nets.classifier import Representation

ROOT = next(path for path in Path(__file__).parents if (path / "pyproject.toml").exists())


def printed_code(page: str) -> str:
    """All Python that a page prints, as one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL))


def run_as_printed(page: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(compile(printed_code(page), page, "exec"), names)
    return names


def test_the_page_runs_as_printed(capsys):
    names = run_as_printed("docs/own-networks.md")
    assert len(capsys.readouterr().out.splitlines()) == 3 + 1 + 1 + 1
    assert 0 <= names["found"].accuracy <= 1
    assert names["found"].trusted
    assert names["curve"].accuracy == sorted(names["curve"].accuracy, reverse=True)
    assert bool((names["shape"].change[1] >= names["shape"].change[0]).all())


def test_the_readme_runs_as_printed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_as_printed("README.md")
    printed = capsys.readouterr().out.splitlines()
    assert names["run"].settings.law.d == 200
    assert names["run"].settings.seeds == (0, 1)
    assert printed[0].split() == ["claim", "reading", "verdict", "value", "rule", "interval", "statement"]
    assert len(printed) == 1 + len(names["ledger"]) + 3
    assert {path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()} >= {
        "patch-fig3",
        "patch-minima",
    }


def test_every_link_of_the_readme_leads_somewhere():
    links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


class Foreign(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh())
        self.head = nn.Linear(3 * 16, 2)
        self.twice = nn.Identity()

    def forward(self, x):
        return self.head(self.twice(self.twice(self.body(x))).flatten(1))


def test_a_layer_of_a_foreign_network_is_the_output_of_its_submodule():
    torch.manual_seed(0)
    net, x = Foreign(), torch.rand(4, 1, 6, 6)
    assert torch.equal(Representation(net, "body.1")(x), torch.tanh(net.body[0](x)).flatten(1))
    assert not net.body[1]._forward_hooks
    with pytest.raises(BadInput, match="layer"):
        Representation(net, "boddy")
    with pytest.raises(BadInput, match="2 calls"):
        Representation(net, "twice")(x)


def test_a_foreign_network_is_inverted():
    """A layer that loses nothing gives the image back."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.Linear(16, 3))
    nn.init.orthogonal_(net[1].weight)
    x = torch.rand(5, 1, 4, 4)
    made = invert(net, x, torch.zeros(5, dtype=torch.long), InversionSpec(layer="1", steps=400))
    assert float(made.error.max()) < 0.02
    torch.testing.assert_close(made.x, x, atol=0.05, rtol=0)
