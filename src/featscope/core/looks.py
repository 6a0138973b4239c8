"""How often one may look at a growing number of seeds without losing the level of the test.

Who adds seeds until an interval of 95 % leaves its bound will see it leave, sooner or later, whatever is
true. Here the numbers of seeds at which a verdict may be taken are fixed beforehand, and each of the K looks
takes its interval at confidence 1 − α/K (Bonferroni): all K intervals together hold the truth with
probability at least 1 − α, so that a false verdict is taken at any of them with probability at most α. It
supposes what every interval over seeds supposes: independent seeds and a mean that Student's interval holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from featscope.core.errors import require


@dataclass(frozen=True)
class Looks:
    """The numbers of seeds at which one looks, ascending, and the chance of a false verdict in all."""

    sizes: tuple[int, ...]
    alpha: float = 0.05

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip(self.sizes, self.sizes[1:], strict=False))
        require(
            bool(self.sizes) and self.sizes[0] >= 2 and ascending,
            "looks are ascending numbers of seeds, two at least",
            f"sizes={self.sizes}",
            "use for example 4, 6, 9",
        )
        require(0 < self.alpha < 1, "the level is in (0, 1)", f"alpha={self.alpha}", "use for example 0.05")

    @property
    def confidence(self) -> float:
        """The confidence of the interval at each look."""
        return 1 - self.alpha / len(self.sizes)

    def seeds(self, size: int) -> tuple[int, ...]:
        """The seeds of a look: 0 … size − 1, those of the look before among them."""
        return tuple(range(size))


#: the looks of `featscope run … --until`
LOOKS = Looks((4, 6, 9, 14, 20))
