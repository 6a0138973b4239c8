"""The key numbers of experiments whose modules are long."""

from __future__ import annotations

from featscope.experiments.highlights import Highlight

STAGES_HIGHLIGHTS = (
    Highlight("clean_test", "clean accuracy on fresh points", "share"),
    Highlight("gta_train", "accuracy under (A), training points", "share"),
    Highlight("gta_test", "accuracy under (A), fresh points", "share"),
    Highlight("alpha3_U", "signal α³U at the end"),
    Highlight("T0", "T0, step at which the signal is learned, by seed"),
    Highlight("T1_median", "T1, median step at which noise is memorised, by seed"),
)
