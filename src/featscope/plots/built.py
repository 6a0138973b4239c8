"""How figures name and draw the networks built by hand."""

from featscope.nets.built.robust import Indicator
from featscope.plots.palette import CATEGORIES, Look

INDICATORS: dict[Indicator, tuple[str, Look]] = {
    "Linf": ("ℓ∞", CATEGORIES[0]),
    "L2-shared": ("ℓ2, shared squares", CATEGORIES[1]),
    "L2-each": ("ℓ2, squares for each point", CATEGORIES[2]),
}
