"""A law of one's own, a network of the package, both trainings, rows and a figure.

The law is AT's, but the robust patch of a point is weaker the more its noise points its way: does adversarial training still switch?
"""

import torch

import featscope as fs
from featscope.attacks.patch_training_attack import Ascent
from featscope.core.store import table
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.patch_observables import correlations, own_correlations
from featscope.dynamics.trajectory import trajectory
from featscope.laws.patches import PatchBatch
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.plots.style import NON_ROBUST, ROBUST, finish, panels


class Fading(fs.PatchLaw, registered="fading"):
    """A patch law whose points are dimmed by a factor of their own, from ``dimmest`` to 1."""

    dimmest: float = 0.5

    def sample(self, n: int, rng: torch.Generator | None = None, seed: int = 0) -> PatchBatch:
        rng = rng or fs.stream(seed, "data")
        batch = super().sample(n, rng)
        dim = self.dimmest + (1 - self.dimmest) * torch.rand(n, 1, 1, generator=rng, dtype=torch.float64)
        return batch._replace(x=dim * batch.x, amplitude=dim[..., 0] * batch.amplitude)


def main(steps: int = 400) -> str:
    """Train twice, draw both, and return where the figure is."""
    law, net = Fading(k=2, d=40), PatchNetSpec(width=20)
    batch = law.sample(60, seed=0)
    start = Weights(net.init(law.k, law.d, fs.stream(0, "init")))
    figure, axes = panels(1, 2)
    for ax, (name, attack) in zip(axes[0], {"standard": None, "adversarial": Ascent(eps=1.2).perturb}.items()):
        step = training_step(net, batch.x, batch.y, 1.0, attack)

        def look(state: Weights, t: int) -> dict[str, torch.Tensor]:
            return {k: own_correlations(c).amax() for k, c in correlations(state.w, law)._asdict().items()}

        rows = table(trajectory(step, start, steps, look, every=10).rows)
        ax.plot(rows["step"], rows["u"], color=ROBUST, label="robust: max ⟨w, u⟩")
        ax.plot(rows["step"], rows["v"], color=NON_ROBUST, label="non-robust: max ⟨w, v⟩")
        finish(ax, f"{name} training", "step", "correlation")
    figure.savefig("own_law.png")
    return "own_law.png"


if __name__ == "__main__":
    print(main())
