"""`clusters-fig3-settings`: what the text of §6.1 leaves open, tried for the published Figure 3 (left)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from featscope.attacks.minimal import MinimalPGD, readout_objective
from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.clusters import ClusterLaw
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import span
from featscope.papers.fa.clusters import Training, train


class Fig3SettingsSpec(Spec):
    """§6.1's values, of which one at a time is changed."""

    profiles: ClassVar[dict[str, Overrides]] = {"quick": {"test_points": 20, "points": [1000, 300]}}
    seeds: tuple[int, ...] = (0,)
    points: tuple[int, ...] = setting((1000, 500, 300, 200), "training points that are tried", letter="n")
    steps: tuple[int, ...] = setting((20, 1000), "steps of descent that are tried", letter="T")
    noises: tuple[float, ...] = setting((0.5, 2.0), "standard deviations of the noise", letter="σ")
    cosines: tuple[float, ...] = setting((0.09,), "cosines between two features")
    inits: tuple[float, ...] = setting((1e-3,), "scales of the first weights", letter="σ_w")
    neurons: tuple[int, ...] = setting((2,), "neurons of each class of the k-class network", letter="h")
    test_points: int = setting(60, "fresh points whose radii are measured", ge=1)


class TriedSetting(Columns):
    """One row for each setting and seed: the radius that half of the points withstand."""

    changed = column("what is not as printed")
    value = column("its value")
    seed = column("the seed")
    binary = column("median exact radius of the 2-class network")
    fine = column("median radius of PGD on the read-out of the k-class network")


def settings(spec: Fig3SettingsSpec) -> list[tuple[str, float, ClusterLaw, Training]]:
    """What is changed, its value, the law and the training."""
    law, base = ClusterLaw(), Training(compact=True)
    found = [("n", float(n), law, base.replace(n=n)) for n in spec.points]
    found += [("T", float(t), law, base.replace(steps=t)) for t in spec.steps]
    found += [("σ", s, law.replace(sigma=s), base) for s in spec.noises]
    found += [("cosine", c, law.replace(cosine=c), base) for c in spec.cosines]
    found += [("σ_w", w, law, base.replace(init_weight=w, init_bias=w)) for w in spec.inits]
    found += [("h", float(h), law, base.replace(h=h)) for h in spec.neurons]
    return found


def _try(
    spec: Fig3SettingsSpec, law: ClusterLaw, training: Training, seed: int
) -> tuple[Rows, dict[str, Tensor]]:
    done = train(spec, law, training, seed, None, training.steps)
    batch = done.test(spec.test_points)
    exact = exact_radii(done.binary, batch.x, batch.y).upper
    basis, signs = span(done.fine.w), law.signs(batch.x.dtype)
    net, inner = MultiClass(done.fine.w @ basis.mT, training.h), batch.x @ basis.mT
    pgd = MinimalPGD(steps=40, restarts=2, rounds=8, reach=2 * math.sqrt(law.d))
    attacked = pgd(readout_objective(net, signs, batch.y), inner, stream(seed, "attack")).radius
    return [{TriedSetting.binary: float(exact.median()), TriedSetting.fine: float(attacked.median())}], {}


def run_fig3_settings(spec: Fig3SettingsSpec, folder: Folder) -> Json:
    """Every setting with every seed."""
    found: dict[str, Json] = {}
    for changed, value, law, training in settings(spec):
        folder.conditions(law.check(training.hyper), changed=changed, value=value)
        for seed in spec.seeds:
            rows = folder.once(
                "tried",
                partial(_try, spec, law, training, seed),
                changed=changed,
                value=value,
                seed=seed,
            ).rows
            found[f"{changed} = {value:g}"] = rows[0]
    return {"tried": found}


def size(spec: Fig3SettingsSpec) -> Size:
    """Compact copies of the largest sample."""
    points, cases = max(spec.points), len(settings(spec))
    return Size(points * points, len(spec.seeds) * cases * points * points * 100)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-fig3-settings",
        "fa",
        "which setting within the text's freedom gives the published Figure 3 (left): n, T, σ, cosine, σ_w "
        "or h",
        Fig3SettingsSpec,
        run_fig3_settings,
        {"quick": "5 s", "cpu": "15 s", "paper": "15 s"},
        highlights=(Highlight("tried/*/binary", "radius that half of the points withstand, 2-class, {}"),),
        size=size,
        columns={"tried": TriedSetting},
    ),
)
