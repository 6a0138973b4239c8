"""The line against AutoAttack: both accuracies and who warned; alone where the library is missing."""

import logging
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from featscope.bench import probe


class Lazy:
    """An attack that changes nothing and warns."""

    def __init__(self, net: nn.Module, **options: object) -> None:
        assert options["eps"] == probe.WIDE.eps

    def run_standard_evaluation(self, x: Tensor, y: Tensor, batch_size: int) -> Tensor:
        logging.getLogger("auto-attack").warning("something is odd")
        return x


def test_a_line_has_both_accuracies_and_both_warnings() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(432, 10)).requires_grad_(False)
    x, _ = probe.task(8, 1)
    y = net(x).argmax(1)
    line = probe._line("linear", net, x, y, SimpleNamespace(AutoAttack=Lazy))
    assert line.note.endswith("/ 1.000, warned")
    mine = probe.ours(net, x, y, probe.WIDE)
    assert line.note.startswith(f"robust accuracy {mine.accuracy:.3f}")
    assert (", warned /" in line.note) == bool(mine.warnings)
    alone = probe._line("linear", net, x, y, None)
    assert "not installed" in alone.against
    assert alone.ratio == 0
