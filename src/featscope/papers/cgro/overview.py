"""What is said of an experiment before it runs and after: the size of its settings, and its key numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight

if TYPE_CHECKING:
    from featscope.papers.cgro.signal_stages import SignalStages


def stages_size(spec: SignalStages) -> Size:
    """Training and fresh points; the recursion meets every noise patch with every neuron."""
    law, patches = spec.law, spec.n * (spec.law.patches - 1)
    coordinates = patches + spec.m + 1 if spec.compact else law.d
    held = (spec.n + spec.test) * law.patches * coordinates + patches * patches
    products = spec.steps * patches * spec.m + spec.verify_steps * spec.n * law.patches * law.d * spec.m
    return Size(held, len(spec.seeds) * products)


STAGES_HIGHLIGHTS = (
    Highlight("clean_test", "clean accuracy on fresh points", "share"),
    Highlight("gta_train", "accuracy under (A), training points", "share"),
    Highlight("gta_test", "accuracy under (A), fresh points", "share"),
    Highlight("alpha3_U", "signal α³U at the end"),
    Highlight("T0", "T0, step at which the signal is learned, by seed"),
    Highlight("T1_median", "T1, median step at which noise is memorised, by seed"),
)
