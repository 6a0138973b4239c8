"""`patch-minima`: AT Propositions 3.1 and 3.2, the networks w_i = γ v_i and w_i = γ u_i, along γ and along
the noise.

Everything is exact for each sampled point: the networks read one axis a class, so the worst perturbation is
known in closed form. Only the coordinates of the features matter, which is why the sample keeps no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from featscope.attacks.evaluate import evaluate
from featscope.attacks.patch_axis_margin import outputs, worst_margins
from featscope.attacks.patch_model_free import model_free, write_robust
from featscope.attacks.pgd import ONE_STEP, PGD
from featscope.attacks.threat import Threat
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.losses import CROSS_ENTROPY, margin
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Spec, refuse_unused
from featscope.laws.patches import PatchBatch, PatchLaw, PatchSetting
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec
from featscope.papers.at import printed

ALONG_GAMMA, ALONG_NOISE, ALONG_PGD = "gamma", "noise", "attacks"
FEATURES = ("robust", "non-robust")


class Minima(Columns):
    """One row for each network, noise, γ and seed; accuracies are exact for each sampled point."""

    feature = column("robust: w_i = γ u_i; non-robust: w_i = γ v_i")
    sigma_n = column("the noise σ_n")
    seed = column("the seed of the sample")
    gamma = column("the scale γ of the weights")
    risk = column("mean cross-entropy")
    clean = column("accuracy without attack")
    full_ball = column("accuracy over the whole ball", "full-ball")
    own_logit = column("accuracy under the attack that only lowers F_y", "own-logit")
    explicit = column("accuracy under the proof's own Δ; none where ε < β leaves it no room")
    points = column("how many points were sampled")


class Attacks(Columns):
    """One row for each network, γ, radius and seed: PGD beside the exact minimum on a few points."""

    feature = column("robust: w_i = γ u_i; non-robust: w_i = γ v_i")
    gamma = column("the scale γ of the weights")
    eps = column("the radius")
    seed = column("the seed of the points")
    exact = column("exact robust accuracy")
    attacked = column("share of points that the attacks leave")
    beaten = column("points that an attack fools although the exact minimum says it cannot: 0")


class PatchMinima(Spec):
    """The γ and σ_n that are swept, and the sample size."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0],
            "points": 1000,
            "gammas": [0.5, 2, 10, 100, 1e4],
            "noises": [0.1, 0.0316, 0.01],
            "attacked": 50,
        },
        "paper": {"points": 50000},
    }

    law: PatchLaw = setting(PatchLaw(), "the law of the data")
    net: PatchNetSpec = setting(PatchNetSpec(width=1), "the network whose weights are set by hand")
    eps: float = setting(printed.FIGURE_3_EPS, "radius of the threat", letter="ε", gt=0)
    gammas: tuple[Annotated[float, Field(gt=0, le=1e30)], ...] = setting(
        (
            0.1,
            0.3,
            0.5,
            1.0,
            2.0,
            3.0,
            5.0,
            10.0,
            30.0,
            100.0,
            300.0,
            1e3,
            1e4,
        ),
        "sizes of the hand-set weights that are swept",
        letter="γ",
    )
    noises: tuple[Annotated[float, Field(ge=0)], ...] = setting(
        (0.1, 0.0562, 0.0316, 0.0178, 0.01, 0.00316, 0.001), "noise levels that are swept", letter="σ_n"
    )
    points: int = setting(10000, "fresh points on which each error is counted", ge=1)
    dtype: Literal["float64"] = "float64"
    attacked: int = setting(200, "points on which PGD is compared with the exact minimum", ge=1)

    def model_post_init(self, context: object) -> None:
        """Axis features and positive γ only."""
        require(
            self.law.frame == "axes",
            "ℓ∞ needs features along the axes (Def. 2.1)",
            f"frame={self.law.frame}",
            "use axes",
        )
        require(
            len(self.gammas) > 0 and len(self.noises) > 0,
            "gammas and noises must not be empty",
            "[]",
            "give at least one",
        )
        refuse_unused(
            self, "only the coordinates of the features matter here", "law.d", "net.width", "net.sigma_0"
        )


def _sample(spec: PatchMinima, sigma_n: float, seed: int, name: str, n: int) -> tuple[PatchLaw, PatchBatch]:
    law = spec.law.replace(sigma_n=sigma_n, d=2 * spec.law.k)
    return law, law.sample(n, stream(seed, "data", name))


def _weights(law: PatchLaw, gamma: float, feature: str) -> Tensor:
    u, v = law.features()
    return gamma * (u if feature == "robust" else v)[:, None, :]


def minimum_rows(
    spec: PatchMinima, sigma_n: float, gammas: tuple[float, ...], seed: int, feature: str
) -> Rows:
    """Risk, clean and robust accuracies along γ for w_i = γ u_i (robust) or γ v_i (non-robust)."""
    law, batch = _sample(spec, sigma_n, seed, "test", spec.points)
    u, v = law.features()
    along = batch.x @ (u if feature == "robust" else v).mT
    q, rho, eps = spec.net.q, spec.net.rho, spec.eps
    explicit = write_robust if feature == "robust" else model_free if eps >= law.beta_supremum else None
    rows: Rows = []
    for gamma in gammas:
        clean = outputs(along, gamma, q, rho)
        net = PatchNet(_weights(law, gamma, feature), q, rho)
        moved = None if explicit is None else batch.x + explicit(law, batch, eps, stream(seed, "attack"))
        row: dict[str, Any] = {
            Minima.feature: feature,
            Minima.sigma_n: sigma_n,
            Minima.seed: seed,
            Minima.gamma: gamma,
            Minima.risk: float(CROSS_ENTROPY.value(clean, batch.y).mean()),
            Minima.clean: _share(margin(clean, batch.y)),
            Minima.full_ball: _share(worst_margins(along, batch.y, gamma, eps, q, rho)),
            Minima.own_logit: _share(worst_margins(along, batch.y, gamma, eps, q, rho, raise_others=False)),
            Minima.explicit: None if moved is None else _share(margin(net(moved), batch.y)),
            Minima.points: spec.points,
        }
        rows.append(row)
    return rows


def _share(margins: Tensor) -> float:
    return float((margins > 0).double().mean())


def attack_rows(spec: PatchMinima, seed: int) -> Rows:
    """PGD against the exact minimum on a few points, for the law as given and γ = 1, 10, 100."""
    rows: Rows = []
    for feature in FEATURES:
        law, batch = _sample(spec, spec.law.sigma_n, seed, "attacked", spec.attacked)
        u, v = law.features()
        along = batch.x @ (u if feature == "robust" else v).mT
        for gamma in (1.0, 10.0, 100.0):
            net = PatchNet(_weights(law, gamma, feature), spec.net.q, spec.net.rho)
            for eps in (0.05, 0.1, 0.2, 0.4, spec.eps):
                exact = worst_margins(along, batch.y, gamma, eps, spec.net.q, spec.net.rho)
                suite = [ONE_STEP, PGD("margin", 40, restarts=2), PGD("cross-entropy", 40)]
                found = evaluate(net, batch.x, batch.y, Threat("Linf", eps, 2), suite, stream(seed, "attack"))
                rows.append(
                    {
                        Attacks.feature: feature,
                        Attacks.gamma: gamma,
                        Attacks.eps: eps,
                        Attacks.seed: seed,
                        Attacks.exact: _share(exact),
                        Attacks.attacked: found.accuracy,
                        Attacks.beaten: int((found.robust < (exact > 0)).sum()),
                    }
                )
    return rows


def run(spec: PatchMinima, folder: Folder) -> Json:
    """Both propositions for all seeds, along γ at the law's noise and along the noise at the largest γ."""
    folder.conditions(
        spec.law.check(PatchSetting(spec.eps, spec.law.sample(200, stream(spec.seeds[0], "data", "law"))))
    )
    both = [(seed, feature) for seed in spec.seeds for feature in FEATURES]
    largest = (max(spec.gammas),)
    by_gamma = [row for s, f in both for row in minimum_rows(spec, spec.law.sigma_n, spec.gammas, s, f)]
    by_noise = [row for s, f in both for n in spec.noises for row in minimum_rows(spec, n, largest, s, f)]
    folder.add(ALONG_GAMMA, by_gamma, _certificate(spec))
    folder.add(ALONG_NOISE, by_noise)
    folder.add(ALONG_PGD, [row for seed in spec.seeds for row in attack_rows(spec, seed)])
    shown = (Minima.risk, Minima.clean, Minima.own_logit, Minima.full_ball, Minima.explicit)
    return {
        feature: {
            str(Minima.gamma): list(spec.gammas),
            **{str(name): _over_seeds(by_gamma, feature, spec.gammas, name) for name in shown},
        }
        for feature in FEATURES
    }


def _over_seeds(rows: Rows, feature: str, gammas: tuple[float, ...], name: str) -> list[float | None]:
    mine = [row for row in rows if row[Minima.feature] == feature]
    chosen = [[row[name] for row in mine if row[Minima.gamma] == gamma] for gamma in gammas]
    return [None if None in values else sum(values) / len(values) for values in chosen]


def _certificate(spec: PatchMinima, count: int = 100) -> dict[str, Tensor]:
    """Points of the full law, perturbations that write ε u_j on every patch, and the network w_i = γ u_i at
    the largest γ."""
    batch = spec.law.sample(count, stream(spec.seeds[0], "data", "certificate"))
    delta = write_robust(spec.law, batch, spec.eps, stream(spec.seeds[0], "certificate"))
    gamma = torch.tensor(max(spec.gammas), dtype=torch.float64)
    return {
        "x": batch.x,
        "y": batch.y,
        "delta": delta,
        "w": _weights(spec.law, float(gamma), "robust"),
        "gamma": gamma,
    }


def size(spec: PatchMinima) -> Size:
    """One sample, met by the network of every γ and at every noise."""
    held = spec.points * spec.law.patches * spec.law.d
    swept = len(spec.seeds) * (len(spec.gammas) + len(spec.noises))
    return Size(held, swept * held * spec.law.k * spec.net.width)


EXPERIMENTS = (
    Experiment(
        name="patch-minima",
        paper="at",
        shows="AT Propositions 3.1 and 3.2: the non-robust and the robust global minimum along γ and along "
        "the noise, exact for each point",
        spec=PatchMinima,
        run=run,
        takes={"quick": "3 s", "cpu": "20 s", "paper": "1 min"},
        highlights=(
            Highlight("robust/gamma", "γ of the networks"),
            Highlight("robust/risk", "clean risk of the robust solution over γ"),
            Highlight(
                "robust/own-logit", "robust accuracy of the robust solution over γ, attack on −F_y", "share"
            ),
            Highlight(
                "robust/full-ball", "robust accuracy of the robust solution over γ, full ball", "share"
            ),
            Highlight("non-robust/risk", "clean risk of the non-robust solution over γ"),
            Highlight(
                "non-robust/own-logit",
                "robust accuracy of the non-robust solution over γ, attack on −F_y",
                "share",
            ),
        ),
        size=size,
        revision=2,
        columns={ALONG_GAMMA: Minima, ALONG_NOISE: Minima, ALONG_PGD: Attacks},
    ),
)
