"""The page about one's own network runs as it is printed, and a foreign network's layers are what its submodules return."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from featscope.core.errors import BadInput
from featscope.features.invert import InversionSpec, invert
from featscope.nets.classifier import Representation

PAGE = Path(__file__).parent.parent / "docs" / "own-networks.md"


def test_the_page_runs_as_printed(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    torch.manual_seed(0)
    names = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert 0 <= names["found"].accuracy <= 1
    assert list(names["curve"].accuracy) == sorted(names["curve"].accuracy, reverse=True)
    assert bool((names["shape"].change[1] >= names["shape"].change[0]).all())


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
