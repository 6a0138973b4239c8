"""A law of one's own, a network of the package, both trainings, rows and a figure.

The law is AT's, but every point is dimmed by a factor of its own. Does standard training still take the
non-robust features, and adversarial training the robust ones? `python examples/own_law.py [PICTURE]` says.
"""

import sys
from pathlib import Path

import polars as pl
import torch

import featscope as fs
from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.core.store import table
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.patch_observables import feature_correlations, own_correlations
from featscope.dynamics.trajectory import trajectory
from featscope.laws.patches import PatchBatch
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.plots.axes import Axis
from featscope.plots.palette import NON_ROBUST, ROBUST
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Curve
from featscope.plots.sheet import side_by_side


class Fading(fs.PatchLaw, registered="fading"):
    """A patch law whose points are dimmed by factors between ``dimmest`` and 1."""

    dimmest: float = 0.5

    def sample(self, n: int, rng: torch.Generator | None = None, seed: int = 0) -> PatchBatch:
        """Draw n points of AT's law and dim them."""
        rng = rng or fs.stream(seed, "data")
        batch = super().sample(n, rng)
        factor = self.dimmest + (1 - self.dimmest) * torch.rand(n, 1, generator=rng, dtype=torch.float64)
        return batch._replace(x=factor[..., None] * batch.x, amplitude=factor * batch.amplitude)


def train(law: Fading, attack: PatchTrainingAttack | None, steps: int) -> pl.DataFrame:
    """Rows of a training: the neurons' largest ⟨w, u⟩ (robust) and ⟨w, v⟩ (non-robust), own class."""
    batch, net = law.sample(60, seed=0), PatchNetSpec(width=20)
    start = Weights(net.init(law.k, law.d, fs.stream(0, "init")))
    step = training_step(net, batch.x, batch.y, 1.0, attack.perturb if attack else None)

    def look(state: Weights, t: int) -> dict[str, torch.Tensor]:
        return {
            name: own_correlations(c).amax()
            for name, c in feature_correlations(state.w, law)._asdict().items()
        }

    return table(trajectory(step, start, steps, look, every=10).rows)


def drawn(found: dict[str, pl.DataFrame]) -> Picture:
    """Both trainings side by side."""
    panels = []
    for name, rows in found.items():
        robust = Curve("robust: max ⟨w, u⟩", ROBUST, rows["step"].to_list(), rows["u"].to_list())
        other = Curve("non-robust: max ⟨w, v⟩", NON_ROBUST, rows["step"].to_list(), rows["v"].to_list())
        panels.append(Panel(f"{name} training", Axis("step"), Axis("correlation"), [robust, other]))
    return Picture(
        title="Features learned from points that are dimmed",
        caption="The largest correlation of a neuron with each class's own robust and non-robust feature.",
        alt="Two line charts over steps, one for each training: correlation with robust and non-robust "
        "features.",
        spec=side_by_side(panels),
    )


def main(picture: str = "own_law.png", steps: int = 1000) -> dict[str, pl.DataFrame]:
    """Train in both ways, draw both, and return the rows."""
    found = {name: train(Fading(k=2, d=40), attack, steps) for name, attack in ATTACKS.items()}
    drawn(found).save(Path(picture))
    return found


ATTACKS = {"standard": None, "adversarial": PatchTrainingAttack(eps=1.2)}

if __name__ == "__main__":
    for training, rows in main(sys.argv[1] if sys.argv[1:] else "own_law.png").items():
        print(training, rows.tail(1))
