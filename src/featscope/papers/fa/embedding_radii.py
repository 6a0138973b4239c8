"""How far test embeddings are from the boundaries of the two heads: attacked from above, certified from below (beyond the paper).

The heads live in the span of their weights, so that the attack moves points there only. Radii are in units of the embeddings' root mean squared norm. The 2-class
head has 15 neurons a class, too many for the exact radius (2^15 pieces), and both heads have several neurons a class, for which the certificate is a Lipschitz bound.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from featscope.attacks.minimal import MinimalPGD, own_loss_objective, readout_objective
from featscope.attacks.readout_certificate import certified_radii
from featscope.core.frozen import Value
from featscope.core.store import Rows
from featscope.core.streams import stream
from featscope.laws.clusters import ClusterBatch
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import span


class RadiusSpec(Value):
    """Test points whose radius is searched, and the attack's steps, restarts and rounds."""

    points: int = Field(default=200, ge=1)
    steps: int = Field(default=40, ge=1)
    restarts: int = Field(default=3, ge=1)
    rounds: int = Field(default=8, ge=1)


def attack_heads(
    spec: RadiusSpec, heads: Mapping[str, tuple[MultiClass, Tensor]], labels: Mapping[str, Tensor], test: ClusterBatch, seed: int
) -> tuple[Rows, dict[str, Tensor]]:
    """A row for each of the first points: radii of each head by read-out, by own loss, the smaller of both, and certified.

    The smaller radius is an upper bound on the true one; the tensors hold its perturbations.
    """
    n = min(spec.points, len(test.y))
    unit = float(test.x.square().sum(-1).mean().sqrt())
    rows: Rows = [{"seed": seed, "point": i} for i in range(n)]
    deltas = {}
    for name, (head, signs) in heads.items():
        x, y, own = test.x[:n], test.y[:n], labels[name][:n]
        basis = span(head.w)
        inner, small = x @ basis.mT, MultiClass(head.w @ basis.mT, head.h)
        # There are no biases: at δ = −z all outputs are 0, so the boundary is at most ‖z‖ away.
        pgd = MinimalPGD(spec.steps, spec.restarts, spec.rounds, 2 * unit)
        found = [
            pgd(objective, inner, stream(seed, "attack", name))
            for objective in (readout_objective(small, signs, y), own_loss_objective(small, signs, y, own))
        ]
        best = torch.minimum(found[0].radius, found[1].radius)
        nearer = (found[0].radius <= found[1].radius)[:, None]
        deltas[f"{name}_delta"] = torch.where(nearer, found[0].delta, found[1].delta) @ basis
        lower = certified_radii(small, signs, inner, y, own, best)
        columns = {"readout": found[0].radius, "own_loss": found[1].radius, "attacked": best, "certified": lower}
        for i, row in enumerate(rows):
            row |= {f"{name}_{key}": min(float(value[i]) / unit, 2.0) for key, value in columns.items()}
    return rows, deltas
