"""How far test embeddings are from the heads' boundaries: attacked from above, certified from below.

The heads live in the span of their weights, so that the attack moves points there only. Radii are in units of
the embeddings' root mean squared norm. The 2-class head has 15 neurons a class, too many for the exact radius
(2^15 pieces), and both heads have several neurons a class, for which the certificate is a Lipschitz bound.
"""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.attacks.minimal import MinimalPGD, own_loss_objective, readout_objective
from featscope.attacks.readout_certificate import certified_radii
from featscope.core.columns import Columns, column
from featscope.core.frozen import Value
from featscope.core.settings import setting
from featscope.core.store import Rows
from featscope.core.streams import stream
from featscope.laws.clusters import ClusterBatch
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import span


class RadiusSpec(Value):
    """Test points whose radius is searched, and the attack's steps, restarts and rounds."""

    points: int = setting(200, "test points whose radius is searched", ge=1)
    steps: int = setting(40, "steps of the attack at each radius", ge=1)
    restarts: int = setting(3, "random starts of the attack", ge=1)
    rounds: int = setting(8, "halvings of the search", ge=1)


class HeadRadii(Columns):
    """One row for each head, kind of embedding, seed and test point.

    Radii ÷ root mean squared norm of the embeddings.
    """

    net = column("binary or fine")
    kind = column("raw or centred")
    seed = column("the seed")
    point = column("index of the test point")
    readout = column("radius found by the attack on the read-out")
    own_loss = column("radius found by the attack on the head's own loss")
    attacked = column("the smaller of both: an upper bound on the true radius")
    certified = column("a lower bound on the true radius")


def attack_head(
    spec: RadiusSpec, name: str, head: MultiClass, signs: Tensor, own: Tensor, test: ClusterBatch, seed: int
) -> tuple[Rows, dict[str, Tensor]]:
    """A row for each of the first points, and the perturbations that attain the attacked radii.

    ``own`` are the labels that the head ``name`` was trained on, ``signs`` the halves of its classes.
    """
    n = min(spec.points, len(test.y))
    unit = float(test.x.square().sum(-1).mean().sqrt())
    x, y, own = test.x[:n], test.y[:n], own[:n]
    basis = span(head.w)
    inner, small = x @ basis.mT, MultiClass(head.w @ basis.mT, head.h)
    # There are no biases: at δ = −z all outputs are 0, so the boundary is at most ‖z‖ away.
    pgd = MinimalPGD(spec.steps, spec.restarts, spec.rounds, 2 * unit)
    readout, own_loss = (
        pgd(objective, inner, stream(seed, "attack", name))
        for objective in (readout_objective(small, signs, y), own_loss_objective(small, signs, y, own))
    )
    best = torch.minimum(readout.radius, own_loss.radius)
    nearer = (readout.radius <= own_loss.radius)[:, None]
    columns = {
        HeadRadii.readout: readout.radius,
        HeadRadii.own_loss: own_loss.radius,
        HeadRadii.attacked: best,
        HeadRadii.certified: certified_radii(small, signs, inner, y, own, best),
    }
    rows: Rows = [
        {HeadRadii.point: i, **{key: min(float(value[i]) / unit, 2.0) for key, value in columns.items()}}
        for i in range(n)
    ]
    return rows, {"delta": torch.where(nearer, readout.delta, own_loss.delta) @ basis}
