"""What the benchmark compares is the same work: equal steps, and accuracies that are not above the plain
loop's."""

import torch
from image_task import SPEC

from featscope.bench import images as bench
from featscope.bench.registry import BENCHES
from featscope.bench.timing import compare
from featscope.nets.fold import fold


def test_ours_is_not_weaker_than_the_plain_loop(monkeypatch):
    monkeypatch.setattr(bench, "NETWORK", SPEC.replace(side=28, classes=10, width=8))
    net = bench.brief_network()
    x, y = bench.task(64, 1)
    ours = bench.ours(fold(net, x[:2]).model, x, y)
    plain = bench.plain_pgd(net, x, y, bench.EPS, False)
    assert float((ours - x).abs().max()) <= bench.EPS * (1 + 1e-5)
    mine, theirs = bench.right(net, ours, y), bench.right(net, plain, y)
    assert (
        int((mine & ~theirs).sum()) == 0
    )  # the same steps from the same start, and the best of them is kept
    assert int((mine != theirs).sum()) <= 2
    assert f"same verdict on {int((mine == theirs).sum())} of 64" in bench._verdicts(net, y, ours, plain)
    curve = torch.tensor(bench.our_curve(net, x, y))
    several = torch.tensor(bench.their_accuracies(bench.plain_pgd, net, x, y, bench.RADII))
    assert float(bench.right(net, x, y).double().mean()) >= float(curve[0])
    assert bool((curve <= several + 1 / 64).all())
    assert bench.our_accuracy(net, x, y)[0] <= float(theirs.double().mean()) + 1 / 64
    assert "images" in BENCHES


def test_the_clock_and_the_check_of_a_comparison_are_used():
    ticks = iter(range(100))
    ratio = compare(
        "a",
        lambda: 1,
        "b",
        lambda: 2,
        rounds=3,
        repeats=1,
        clock=lambda: float(next(ticks) ** 2),
        check=lambda a, b: f"{a}/{b}",
    )
    # Rounds take ticks 0..3, 4..7, 8..11; theirs (first) lasts 1, 9, 17 and ours 5, 13, 21.
    assert ratio.ratio == 9 / 13
    assert ratio.note == ratio.as_json()["note"] == "1/2"
