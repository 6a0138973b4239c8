"""Learning rates over training, as functions of the share of training that is done: 0 at the beginning, 1 at
the end."""

from __future__ import annotations

import math
from typing import Literal

from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.settings import setting


class Schedule(Value):
    """The learning rate ``peak`` times a shape.

    `constant`; `cyclical`: linear from 0 up to the peak at ``rise`` and down to 0 (CGRO §6, after Wong et al.
    2020); `cosine`: from the peak to 0 along half a cosine; `piecewise`: times ``factor`` at each of
    ``drops`` (shares of training).
    """

    shape: Literal["constant", "cyclical", "cosine", "piecewise"] = setting(
        "cyclical", "how the learning rate moves"
    )
    peak: float = setting(0.1, "the largest learning rate", letter="η", gt=0)
    rise: float = setting(0.4, "share of the training at which the peak is reached (cyclical)", gt=0, lt=1)
    drops: tuple[float, ...] = setting(
        (0.5, 0.75), "shares of the training at which the rate drops (piecewise)"
    )
    factor: float = setting(0.1, "factor of each drop (piecewise)", gt=0, lt=1)

    def model_post_init(self, context: object) -> None:
        """Drops lie inside the training, in order."""
        inside = all(0 < d < 1 for d in self.drops) and list(self.drops) == sorted(self.drops)
        require(
            inside,
            "drops are ascending shares of training in (0, 1)",
            f"drops={self.drops}",
            "use for example [0.5, 0.75]",
        )

    def __call__(self, done: float) -> float:
        """The learning rate when ``done`` of the training is over."""
        done = min(max(done, 0.0), 1.0)
        match self.shape:
            case "constant":
                return self.peak
            case "cyclical":
                return self.peak * (done / self.rise if done < self.rise else (1 - done) / (1 - self.rise))
            case "cosine":
                return self.peak * 0.5 * (1 + math.cos(math.pi * done))
            case _:
                return self.peak * self.factor ** sum(done >= d for d in self.drops)


class Ramp(Value):
    """A radius that grows linearly from 0 to its full size over the first ``epochs`` epochs (0: full size at
    once)."""

    epochs: float = setting(
        0.0, "epochs over which the radius grows from 0 to its full size; 0: full size at once", ge=0
    )

    def __call__(self, eps: float, epoch: float) -> float:
        """The radius at an epoch (fractions count)."""
        return eps if self.epochs == 0 else eps * min(1.0, epoch / self.epochs)
