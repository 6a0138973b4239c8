"""What the benchmark compares is the same work: equal steps, and accuracies that are not above the plain loop's."""

import torch

from featscope.bench import images as bench
from featscope.bench.registry import BENCHES
from featscope.nets.fold import fold
from image_task import SPEC


def test_ours_is_not_weaker_than_the_plain_loop(monkeypatch):
    monkeypatch.setattr(bench, "NETWORK", SPEC.replace(side=28, classes=10, width=8))
    net = bench.network()
    x, y = bench.task(64, 1)
    clean = bench.accuracy(net, x, y)
    ours = bench.ours(fold(net, x[:2]).model, x, y, bench.EPS)
    plain = bench.plain_pgd(net, x, y, bench.EPS, 2.5 * bench.EPS / bench.STEPS)
    assert float((ours - x).abs().max()) <= bench.EPS * (1 + 1e-5)
    assert bench.accuracy(net, ours, y) <= bench.accuracy(net, plain, y) + 1 / 64
    curve = torch.tensor(bench.our_curve(net, x, y))
    theirs = torch.tensor([bench.accuracy(net, bench.plain_pgd(net, x, y, e, 2.5 * e / bench.STEPS), y) for e in bench.RADII])
    assert clean >= float(curve[0])
    assert bool((curve <= theirs + 1 / 64).all())
    assert "images" in BENCHES
