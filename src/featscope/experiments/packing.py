"""`packing`: the parameters that robustness costs at least, by counting on a packing (CGRO Thm 5.3, EP)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from featscope.attacks.evaluate import evaluate
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.columns import Columns, column
from featscope.core.settings import Positives, Shares, Sizes, setting
from featscope.core.signs import label_index, share, two_logits
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.separated import PackingLaw
from featscope.nets.built.counting import (
    packing_sites,
    parameters_needed,
    parameters_needed_at_depth,
    shattered_share,
)
from featscope.nets.built.robust import HALFSPACE_PARAMETERS, cgro_parameters, opposite_distance

Row = dict[str, Any]


class Packing(Spec):
    """The packing on a hyperplane: the VC count over D, δ, μ, the law's own facts, and an illustration."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {"train_dimensions": [2, 3], "widths": [2, 4, 8, 16], "train_steps": 300, "seeds": [0]}
    }

    seeds: tuple[int, ...] = (0,)
    dimensions: Sizes = setting((8, 16, 24, 32, 48, 64, 96, 128), "dimensions of the count", letter="D")
    deltas: Positives = setting((0.2, 0.1, 0.01), "radii of the count", letter="δ")
    mus: Shares = setting((0.0, 0.05, 0.1, 0.2), "robust errors of the count", letter="μ")
    fixed_depth: int = setting(3, "layers in the count at fixed depth", ge=1)
    listed: Sizes = setting((2, 3, 4, 5), "D whose whole support is listed and checked")
    n: int = setting(100, "training points of the comparison with f_S", letter="N", ge=1)
    train_dimensions: Sizes = setting((2, 3, 4), "D of the illustration")
    widths: Sizes = setting(
        (2, 4, 8, 16, 32, 64, 128), "widths of the networks that are trained as an illustration"
    )
    train_steps: int = setting(1000, "steps of that training", ge=1)

    @property
    def shown_delta(self) -> float:
        """The δ that summaries, figures and claims show: the largest."""
        return max(self.deltas)

    @property
    def shown_mu(self) -> float:
        """The μ that summaries, figures and claims show: the one nearest to .1."""
        return min(self.mus, key=lambda mu: abs(mu - 0.1))

    def listed_law(self, dim: int, seed: int) -> PackingLaw:
        """The law whose support is listed."""
        return PackingLaw(D=dim, label_seed=seed)

    def trained_law(self, dim: int, seed: int) -> PackingLaw:
        """The law of the illustration, with more room between the balls."""
        return PackingLaw(D=dim, delta_share=0.6, shift_share=1 / 3, label_seed=seed)


class PackingCount(Columns):
    """The least number of parameters for each D, δ and μ."""

    D = column("dimension")
    delta = column("radius δ")
    mu = column("robust error μ that is allowed")
    log10_sites = column("log10 of the number of sites")
    vc_share = column("share of the sites that must be shattered at μ")
    needed = column("least number of parameters by VC counting")
    needed_fixed_depth = column("the same at the fixed depth")
    cgro = column("parameters of f_S in ℓ∞ for N points")


class ListedLaw(Columns):
    """One packing whose support is listed in full."""

    seed = column("seed of the labels")
    D = column("dimension")
    sites = column("points of the support")
    radius = column("radius δ")
    separation_Linf = column("least ℓ∞ distance of opposite points")
    separation_L2 = column("least ℓ2 distance of opposite points")
    clean_error = column("error of the classifier x_D > ½")
    linear_robust_error = column("its robust error at radius δ")


class Illustration(Columns):
    """One network that Adam trained."""

    seed = column("seed of the labels and of the training")
    D = column("dimension")
    hidden = column("hidden layers")
    width = column("neurons a layer")
    robust_train = column("robust training accuracy under PGD, ℓ∞")


def count_rows(spec: Packing) -> list[Row]:
    """n, C(μ) and the least number of parameters as functions of D, δ, μ."""
    rows: list[Row] = []
    for dim in spec.dimensions:
        for delta in spec.deltas:
            for mu in spec.mus:
                sites = packing_sites(dim, delta)
                row: Row = {
                    PackingCount.D: dim,
                    PackingCount.delta: delta,
                    PackingCount.mu: mu,
                    PackingCount.vc_share: shattered_share(mu),
                }
                row[PackingCount.log10_sites] = math.log10(sites)
                row[PackingCount.needed] = float(parameters_needed(sites, mu))
                row[PackingCount.needed_fixed_depth] = float(
                    parameters_needed_at_depth(sites, mu, spec.fixed_depth)
                )
                row[PackingCount.cgro] = cgro_parameters(spec.n, dim, 0, "Linf", HALFSPACE_PARAMETERS)
                rows.append(row)
    return rows


def law_rows(spec: Packing) -> list[Row]:
    """The whole support for small D: separation, separability, and the clean classifier's robust error."""
    rows: list[Row] = []
    for seed, dim in product(spec.seeds, spec.listed):
        law = spec.listed_law(dim, seed)
        data = law.support()
        margin = data.y * (data.x[:, -1] - 0.5)
        row: Row = {ListedLaw.seed: seed, ListedLaw.D: dim}
        row |= {ListedLaw.sites: law.sites, ListedLaw.radius: law.radius}
        row[ListedLaw.separation_Linf] = opposite_distance(data.x, data.y, "Linf")
        row[ListedLaw.separation_L2] = opposite_distance(data.x, data.y, "L2")
        row[ListedLaw.clean_error] = float(share(margin <= 0))
        row[ListedLaw.linear_robust_error] = float(share(margin <= law.radius))
        rows.append(row)
    return rows


def _mlp(dim: int, width: int, hidden: int, rng: torch.Generator) -> nn.Sequential:
    layers: list[nn.Module] = []
    size = dim
    for _ in range(hidden):
        layers += [nn.Linear(size, width), nn.ReLU()]
        size = width
    net = nn.Sequential(*layers, nn.Linear(size, 1)).double()
    for parameter in net.parameters():
        bound = 1 / math.sqrt(parameter.shape[-1])
        parameter.data = (2 * torch.rand(parameter.shape, generator=rng, dtype=torch.float64) - 1) * bound
    return net


def trainable(law: PackingLaw, width: int, hidden: int, steps: int, seed: int) -> float:
    """Robust training accuracy (PGD, ℓ∞) after Adam on corners and fresh inner points of the δ-balls."""
    data = law.support()
    rng = stream(seed, "illustration", law.D, width, hidden)
    net = _mlp(law.D, width, hidden, rng)
    corners = law.radius * (
        2.0 * torch.cartesian_prod(*[torch.arange(2)] * law.D).view(-1, law.D).double() - 1
    )
    x = (data.x[:, None] + corners).flatten(0, 1)
    y = data.y.repeat_interleave(len(corners))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    with torch.enable_grad():
        for _ in range(steps):
            inner = data.x + law.radius * (
                2 * torch.rand(data.x.shape, generator=rng, dtype=torch.float64) - 1
            )
            points, labels = torch.cat([x, inner]), torch.cat([y, data.y])
            loss = nn.functional.softplus(-labels * net(4 * (points - 0.5))[:, 0]).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            plan.step()

    def model(points: Tensor) -> Tensor:
        return two_logits(2 * net(4 * (points - 0.5))[..., 0])

    threat = Threat("Linf", law.radius, 1)
    return evaluate(model, data.x, label_index(data.y), threat, (PGD(steps=20, restarts=3),), rng).accuracy


def illustration_rows(spec: Packing) -> list[Row]:
    """The widths up to the first that trains: an illustration of trainability, not of the lower bound."""
    c, rows = Illustration, list[Row]()
    for seed, dim, hidden in product(spec.seeds, spec.train_dimensions, (1, 2)):
        law = spec.trained_law(dim, seed)
        for width in spec.widths:
            found = trainable(law, width, hidden, spec.train_steps, seed)
            rows.append({c.seed: seed, c.D: dim, c.hidden: hidden, c.width: width, c.robust_train: found})
            if found == 1.0:
                break
    return rows


def _first_widths(shown: list[Row]) -> dict[str, list[int | None]]:
    """For each D and depth the first width that trains, or None, seed by seed."""
    c, first = Illustration, dict[str, dict[int, int | None]]()
    for row in shown:
        by_seed = first.setdefault(f"D={row[c.D]} hidden={row[c.hidden]}", {})
        by_seed[row[c.seed]] = row[c.width] if row[c.robust_train] == 1.0 else None
    return {case: list(widths.values()) for case, widths in first.items()}


def _record_conditions(spec: Packing, folder: Folder) -> None:
    for seed in spec.seeds:
        laws = [("listed", spec.listed_law(dim, seed)) for dim in spec.listed]
        laws += [("trained", spec.trained_law(dim, seed)) for dim in spec.train_dimensions]
        for use, law in laws:
            folder.conditions(law.check(law.own_radius), use=use, D=law.D, seed=seed)


def run_packing(spec: Packing, folder: Folder) -> Json:
    """Count, check the law, illustrate."""
    counts, laws, shown = count_rows(spec), law_rows(spec), illustration_rows(spec)
    folder.add("count", counts)
    folder.add("law", laws)
    folder.add("illustration", shown)
    _record_conditions(spec, folder)
    delta, mu = spec.shown_delta, spec.shown_mu
    chosen = [row for row in counts if row[PackingCount.delta] == delta and row[PackingCount.mu] == mu]
    return {
        "needed": {str(row[PackingCount.D]): row[PackingCount.needed] for row in chosen},
        "cgro": {str(row[PackingCount.D]): row[PackingCount.cgro] for row in chosen},
        "crossing_D": next(
            (row[PackingCount.D] for row in chosen if row[PackingCount.needed] > row[PackingCount.cgro]), None
        ),
        "delta": delta,
        "mu": mu,
        "first_width": _first_widths(shown),
        "linear_robust_error": [row[ListedLaw.linear_robust_error] for row in laws],
    }


def size(spec: Packing) -> Size:
    """The supports that are listed, and the networks that are trained on their corners."""
    listed = max(3 ** min(D, 1000) * D for D in spec.listed)
    corners = max(6 ** min(D, 1000) * D for D in spec.train_dimensions)
    trained = corners * max(spec.widths)
    return Size(listed * listed + trained, spec.train_steps * trained * sum(spec.widths) + listed * listed)


EXPERIMENTS = (
    Experiment(
        name="packing",
        paper="ep",
        shows="CGRO Thm 5.3, EP: random labels on a packing; least parameters by VC counting over D, δ, μ; "
        "trainability as illustration",
        spec=Packing,
        run=run_packing,
        revision=3,
        columns={"count": PackingCount, "law": ListedLaw, "illustration": Illustration},
        takes={"quick": "10 s", "cpu": "40 s", "paper": "40 s"},
        highlights=(
            Highlight("delta", "radius δ"),
            Highlight("mu", "robust error μ"),
            Highlight(
                "crossing_D", "dimension D from which on robustness needs more parameters than f_S has"
            ),
            Highlight("needed/*", "parameters needed at least, D = {}"),
        ),
        size=size,
    ),
)
