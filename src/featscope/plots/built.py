"""How figures name and colour the networks built by hand."""

from featscope.nets.built.robust import Indicator
from featscope.plots.style import CLEAN, NON_ROBUST, ROBUST

INDICATORS: dict[Indicator, tuple[str, str]] = {
    "Linf": ("ℓ∞", ROBUST),
    "L2-shared": ("ℓ2, shared squares", CLEAN),
    "L2-each": ("ℓ2, squares for each point", NON_ROBUST),
}
