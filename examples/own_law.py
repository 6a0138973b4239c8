"""A law of one's own, a network of the package, both trainings, rows and a figure.

The law is AT's, but every point is dimmed by a factor of its own. Does standard training still take the
non-robust features, and adversarial training the robust ones? `python examples/own_law.py [PICTURE]` says.
"""

import sys

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
from featscope.plots.style import NON_ROBUST, ROBUST, finish, panels


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


def main(picture: str = "own_law.png", steps: int = 1000) -> dict[str, pl.DataFrame]:
    """Train in both ways, draw both, and return the rows."""
    figure, axes = panels(1, 2)
    found = {name: train(Fading(k=2, d=40), attack, steps) for name, attack in ATTACKS.items()}
    for ax, (name, rows) in zip(axes[0], found.items(), strict=True):
        ax.plot(rows["step"], rows["u"], color=ROBUST, label="robust: max ⟨w, u⟩")
        ax.plot(rows["step"], rows["v"], color=NON_ROBUST, label="non-robust: max ⟨w, v⟩")
        finish(ax, f"{name} training", "step", "correlation")
    figure.savefig(picture)
    return found


ATTACKS = {"standard": None, "adversarial": PatchTrainingAttack(eps=1.2)}

if __name__ == "__main__":
    for training, rows in main(sys.argv[1] if sys.argv[1:] else "own_law.png").items():
        print(training, rows.tail(1))
