"""Figures of the experiments on real images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from featscope.experiments.image_training import Epochs, ImageTraining
from featscope.experiments.run import Run
from featscope.papers.cgro.image_flatness import FlatNetworks, ImageFlatness
from featscope.papers.cgro.image_landscape import GRADIENT, ImageLandscape, LandscapeEpochs, LandscapeRadii
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.grids import HeatMap, HeatScale
from featscope.plots.palette import ATTACKED, CATEGORIES, CLEAN, Look
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, OverSeeds, Rule, Values, by_seed, points
from featscope.plots.sheet import side_by_side

SAMPLES = {"train": CATEGORIES[0], "test": CATEGORIES[1]}
EPOCH = Axis("epoch")
NORM = "largest gradient norm (ℓ1), mean"


def _one_of_many(place: int) -> Look:
    """Looks for as many names as there are."""
    return CATEGORIES[place % len(CATEGORIES)].variant(place // len(CATEGORIES))


def _over_radii(run: Run, what: str, title: str, label: str) -> Panel:
    """Figure 2 a–d: one quantity over radii after the last epoch."""
    rows, c = run.part("radii"), LandscapeRadii
    drawn = [
        OverSeeds(f"{name} images", look, *by_seed(rows.filter(pl.col(c.set) == name), what, c.radius))
        for name, look in SAMPLES.items()
    ]
    eps = Rule(ImageLandscape.of(run).training.attack.eps, "training radius")
    return Panel(
        f"{title},\nlast epoch", Axis("radius (ℓ∞)"), Axis(label, zero=True), drawn, [eps], width=300
    )


def _over_epochs(run: Run, name: str, top: float) -> Panel:
    """Figure 2 e–h: the largest gradient norm over epochs, one curve for each radius."""
    rows = run.part("training")
    drawn = [
        OverSeeds(
            f"within radius {radius:.3g}",
            _one_of_many(place),
            *by_seed(rows, pl.col(GRADIENT[name]).list.get(place), Epochs.step),
        )
        for place, radius in enumerate(ImageLandscape.of(run).watched)
    ]
    return Panel(f"{name} images,\nover epochs", EPOCH, Axis(NORM, limits=(0, top)), drawn, width=300)


def landscape(run: Run) -> Picture:
    """CGRO Figure 2: above over radii after the last epoch (a–d), below over epochs (e–h)."""
    rows = run.part("training")
    tops = [rows[key].list.max().drop_nulls().to_numpy().max() for key in GRADIENT.values()]
    top = 1.05 * float(max(*tops, 1e-9))
    panels = [
        _over_radii(run, LandscapeRadii.change, "loss change", "largest loss change, mean"),
        _over_radii(run, LandscapeRadii.gradient, "gradient norm", NORM),
        *(_over_epochs(run, name, top) for name in SAMPLES),
    ]
    return Picture(
        title=f"The loss around images after and during adversarial training: {_setting(run)}",
        caption=(
            "Above, after the last epoch: the largest change of the loss and the largest norm of its "
            "gradient within a radius "
            "of training and of test images, means over images. Below: the gradient norm over epochs for "
            "several radii, both "
            "panels on one scale. Thin lines are seeds, thick ones their median."
        ),
        alt=(
            "Four line charts: loss change and gradient norm against the radius for training and test "
            "images; gradient norm "
            "over epochs around training and around test images, one line for each radius."
        ),
        spec=side_by_side(panels, columns=2),
        claims=("CG-F2",),
        reproduces="CGRO Figure 2",
    )


def radii_and_epochs(run: Run) -> Picture:
    """CGRO Figure 2 e–h as a table: the largest gradient norm by radius and epoch, training and test."""
    spec, rows = ImageLandscape.of(run), run.part("training")
    epochs = [int(step) for step in rows[Epochs.step].unique().sort().to_list() if step > 0]
    tables = {name: _logarithms(rows, name, epochs) for name in SAMPLES}
    values = np.concatenate([table.ravel() for table in tables.values()])
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    scale = HeatScale("log₁₀ norm", low, max(high, low + 1e-6))
    names = [_within(radius, spec.training.attack.eps) for radius in spec.watched]
    maps = [
        HeatMap(
            f"{name} images",
            tables[name],
            scale,
            "epoch",
            "within radius",
            names,
            [str(epoch) for epoch in epochs],
            legend=name == "test",
        )
        for name in SAMPLES
    ]
    return Picture(
        title=f"Gradient norm by radius and epoch: {_setting(run)}",
        caption=(
            "The largest ℓ1 norm of the loss gradient found within a radius of training and of test images, "
            "mean over images, median over seeds, at every recorded epoch; as its logarithm to base 10. The "
            "training radius is marked by ε."
        ),
        alt="Two tables as colours, training and test images: gradient norm by radius (rows) and epoch.",
        spec=side_by_side(maps, columns=1),
        claims=("CG-F2",),
        reproduces="CGRO Figure 2 (e–h)",
    )


def _within(radius: float, eps: float) -> str:
    return f"{radius:.3g} = ε" if np.isclose(radius, eps) else f"{radius:.3g}"


def _logarithms(rows: pl.DataFrame, name: str, epochs: list[int]) -> Values:
    """log₁₀ of the gradient norm, (radii, epochs), median over seeds."""
    columns = []
    for epoch in epochs:
        seen = rows.filter(pl.col(Epochs.step) == epoch)[GRADIENT[name]].drop_nulls().to_list()
        columns.append(np.median(np.asarray(seen, dtype=float), axis=0))
    with np.errstate(divide="ignore"):
        found = np.log10(np.stack(columns, -1))
    return np.where(np.isfinite(found), found, np.nan)


def _setting(run: Run, images: bool = True) -> str:
    spec = ImageTraining.of(run)
    told = f"{spec.dataset}, {spec.net.architecture}, ε = {spec.training.attack.eps:.3g}"
    return f"{told}, {spec.train} images" if images else told


def flatness(run: Run) -> Picture:
    """CGRO Figure 3: local and global flatness over epochs, and the robust gap against global flatness."""
    spec, rows = ImageLandscape.of(run), run.part("training")
    place = int(np.argmin(np.abs(np.asarray(spec.watched) - spec.training.attack.eps)))
    within = {name: pl.col(key).list.get(place) for name, key in GRADIENT.items()}
    names = {"train": "local (training images)", "test": "global (test images)"}
    left = Panel(
        "within the training radius",
        EPOCH,
        Axis(NORM, zero=True),
        [
            OverSeeds(label, SAMPLES[name], *by_seed(rows, within[name], Epochs.step))
            for name, label in names.items()
        ],
        width=300,
    )
    right = Panel(
        "epochs at full radius",
        Axis("global flatness: gradient norm at test images"),
        Axis("robust loss, test − train"),
        [_gaps(run, seed, within["test"], _one_of_many(i)) for i, seed in enumerate(spec.seeds)],
        width=300,
    )
    return Picture(
        title=f"Local and global flatness, and the robust generalisation gap: {_setting(run)}",
        caption=(
            "Left: the largest gradient norm within the training radius, around training images (local) and "
            "around test images "
            "(global). Right: the gap of robust loss between test and training images against global "
            "flatness, a point for each "
            "epoch at the full radius."
        ),
        alt=(
            "A line chart of gradient norms over epochs around training and test images, and a scatter chart "
            "of the robust "
            "loss gap against the gradient norm at test images, by seed."
        ),
        spec=side_by_side([left, right]),
        claims=("CG-F3",),
        reproduces="CGRO Figure 3",
    )


def _gaps(run: Run, seed: int, flat: pl.Expr, look: Look) -> Curve:
    """The robust gap against global flatness at the epochs of one seed that train with the full radius."""
    full = max(ImageLandscape.of(run).training.attack.ramp.epochs, 1)
    rows = run.part("training", seed=seed).filter(pl.col(Epochs.step) >= full)
    gap = pl.col(LandscapeEpochs.robust_loss_test) - pl.col(LandscapeEpochs.robust_loss_train)
    found = rows.select(flat.alias("x"), gap.alias("y")).drop_nulls()
    return points(f"seed {seed}", look, found["x"].to_numpy(), found["y"].to_numpy())


def over_networks(run: Run) -> Picture:
    """CGRO Figure 3, right, with a point for each network."""
    spec, rows, c = ImageFlatness.of(run), run.part("network"), FlatNetworks
    gap = pl.col(c.robust_loss_test) - pl.col(c.robust_loss_train)
    drawn = []
    for place, images in enumerate(spec.sizes):
        own = rows.filter(pl.col(c.images) == images).select(
            pl.col(c.gradient_test).alias("x"), gap.alias("y")
        )
        look, found = _one_of_many(place), own.drop_nulls()
        drawn.append(points(f"{images} images", look, found["x"].to_numpy(), found["y"].to_numpy()))
    axes = Axis("global flatness: gradient norm at test images"), Axis("robust loss, test − train")
    return Picture(
        title=f"Robust generalisation gap and global flatness over networks: {_setting(run, images=False)}",
        caption=(
            "A point for each network after its last epoch: the gap of robust loss between test and training "
            "images against the largest gradient norm within the training radius of test images, for several "
            f"numbers of training images, {' and '.join(map(str, spec.lengths))} epochs, and all seeds."
        ),
        alt="Scatter chart: robust loss gap against the gradient norm at test images, by training size.",
        spec=side_by_side([Panel("networks", *axes, drawn, width=380, height=240)]),
        claims=("CG-F3",),
        reproduces="CGRO Figure 3 (right)",
    )


def overfitting(run: Run) -> Picture:
    """CGRO Figure 1: clean and robust accuracy over epochs, training and test."""
    lines = (
        (Epochs.clean_train, CLEAN.variant(1), "train, clean"),
        (Epochs.clean_test, CLEAN, "test, clean"),
        (Epochs.robust_train, ATTACKED.variant(1), "train, robust (PGD)"),
        (Epochs.robust_test, ATTACKED, "test, robust (PGD)"),
    )
    rows = run.part("training")
    drawn = [OverSeeds(name, look, *by_seed(rows, column, Epochs.step)) for column, look, name in lines]
    best = [Rule(epoch, "best by held-out images") for epoch in _best_epoch(rows)]
    return Picture(
        title=f"Learning curves of adversarial training: {_setting(run)}",
        caption=(
            "Accuracy on training and on test images during adversarial training, clean and under PGD. Thin "
            "lines are seeds, thick ones their median. The upright line is the recorded epoch after which "
            "none was better on held-out images, median over seeds."
        ),
        alt="Line chart of accuracy over epochs: clean and under attack, on training and on test images.",
        spec=side_by_side(
            [Panel("adversarial training", EPOCH, ACCURACY, drawn, best, width=380, height=240)]
        ),
        claims=("CG-F1",),
        reproduces="CGRO Figure 1",
    )


def _best_epoch(rows: pl.DataFrame) -> list[float]:
    """The median over seeds of the first recorded epoch whose best score so far is the best of all."""
    top = pl.col(Epochs.held_out).max().over(Epochs.seed)
    first = rows.filter(pl.col(Epochs.held_out) == top).group_by(Epochs.seed).agg(pl.col(Epochs.step).min())
    return [float(np.median(first[Epochs.step].to_numpy()))] if first.height else []


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "image-landscape": {"landscape": landscape, "epochs": radii_and_epochs, "flatness": flatness},
    "image-landscape-cifar10": {"landscape": landscape, "epochs": radii_and_epochs, "flatness": flatness},
    "image-flatness": {"networks": over_networks},
    "image-overfitting": {"overfitting": overfitting},
    "image-overfitting-cifar10": {"overfitting": overfitting},
}
