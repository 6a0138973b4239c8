"""Figures of the experiments on real images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from featscope.experiments.image_training import Epochs, ImageTraining
from featscope.experiments.run import Run
from featscope.papers.cgro.image_landscape import GRADIENT, ImageLandscape, LandscapeEpochs, LandscapeRadii
from featscope.plots.style import ATTACKED, CLEAN, GREY, NON_ROBUST, ROBUST, curve_over_runs, finish, panels

COLORS = (ROBUST, NON_ROBUST, CLEAN, ATTACKED)


def _seeds(run: Run) -> list[pl.DataFrame]:
    """The rows of each seed, by epoch."""
    return [run.part("training", seed=seed).sort(Epochs.step) for seed in run.settings.seeds]


def _over_radii(ax: Axes, run: Run, what: str, title: str) -> None:
    """Figure 2 a–d: one quantity over radii after the last epoch."""
    spec = ImageLandscape.of(run)
    for name, color in (("train", ROBUST), ("test", NON_ROBUST)):
        own = run.part("radii").filter(pl.col(LandscapeRadii.set) == name).sort(LandscapeRadii.radius)
        frames = [own.filter(pl.col(LandscapeRadii.seed) == seed) for seed in spec.seeds]
        radii = frames[0][LandscapeRadii.radius].to_list()
        curve_over_runs(
            ax, radii, [rows[what].to_list() for rows in frames], color, name, marker="o", markersize=3
        )
    ax.axvline(spec.training.attack.eps, color=GREY, linestyle=":", linewidth=1.0)
    finish(ax, f"{title}, last epoch", "radius (dotted: training radius)", "mean over images")


def _over_epochs(ax: Axes, run: Run, name: str) -> None:
    """Figure 2 e–h: the largest gradient norm over epochs, one curve for each radius."""
    seeds = _seeds(run)
    for place, (radius, color) in enumerate(zip(ImageLandscape.of(run).watched, COLORS, strict=False)):
        over = [[values[place] for values in rows[GRADIENT[name]].to_list()] for rows in seeds]
        curve_over_runs(ax, seeds[0][Epochs.step].to_list(), over, color, f"radius {radius:.3g}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    finish(ax, f"largest gradient norm (ℓ1), {name} images", "epoch", "mean over images")


def landscape(run: Run) -> Figure:
    """CGRO Figure 2: above over radii after the last epoch (a–d), below over epochs (e–h)."""
    figure, axes = panels(2, 2, width=4.4)
    _over_radii(axes[0, 0], run, LandscapeRadii.change, "largest loss change")
    _over_radii(axes[0, 1], run, LandscapeRadii.gradient, "largest gradient norm (ℓ1)")
    for ax, name in zip(axes[1], ("train", "test"), strict=True):
        _over_epochs(ax, run, name)
    top = max(ax.get_ylim()[1] for ax in axes[1])
    for ax in axes[1]:
        ax.set_ylim(0, top)
    figure.suptitle(_setting(run), fontsize=10)
    return figure


def _setting(run: Run) -> str:
    spec = ImageTraining.of(run)
    return f"{spec.dataset}, {spec.net.architecture}, ε = {spec.training.attack.eps:.3g}, {spec.train} images"


def flatness(run: Run) -> Figure:
    """CGRO Figure 3: local and global flatness over epochs, and the robust gap against global flatness."""
    figure, axes = panels(1, 2, width=4.4)
    spec, seeds = ImageLandscape.of(run), _seeds(run)
    attack = spec.training.attack
    place = int(np.argmin(np.abs(np.asarray(spec.watched) - attack.eps)))
    within = {
        name: [[v[place] for v in rows[key].to_list()] for rows in seeds] for name, key in GRADIENT.items()
    }
    for name, color, label in (
        ("train", ROBUST, "local (training images)"),
        ("test", NON_ROBUST, "global (test images)"),
    ):
        curve_over_runs(axes[0, 0], seeds[0][Epochs.step].to_list(), within[name], color, label)
    axes[0, 0].set_ylim(bottom=0)
    axes[0, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
    finish(axes[0, 0], "flatness within the training radius", "epoch", "largest gradient norm (ℓ1), mean")
    for color, seed, rows, values in zip(COLORS, spec.seeds, seeds, within["test"], strict=False):
        full = np.asarray(rows[Epochs.step].to_list()) >= max(attack.ramp.epochs, 1)
        gaps = (rows[LandscapeEpochs.robust_loss_test] - rows[LandscapeEpochs.robust_loss_train]).to_numpy()[
            full
        ]
        axes[0, 1].plot(np.asarray(values)[full], gaps, color=color, linewidth=0.8, alpha=0.6)
        axes[0, 1].scatter(
            np.asarray(values)[full], gaps, s=8 + 4 * np.arange(full.sum()), color=color, label=f"seed {seed}"
        )
    labels = ("global flatness: gradient norm at test images", "robust loss, test − train")
    finish(axes[0, 1], "epochs at full radius (larger: later)", *labels)
    figure.suptitle(_setting(run), fontsize=10)
    return figure


def overfitting(run: Run) -> Figure:
    """CGRO Figure 1: clean and robust accuracy over epochs, training and test."""
    figure, axes = panels(1, 1, width=5.5, height=3.6)
    seeds = _seeds(run)
    lines = [(Epochs.clean_train, GREY, "train, clean"), (Epochs.clean_test, CLEAN, "test, clean")]
    lines += [
        (Epochs.robust_train, ROBUST, "train, robust"),
        (Epochs.robust_test, NON_ROBUST, "test, robust"),
    ]
    steps = seeds[0][Epochs.step].to_list()
    for column, color, label in lines:
        curve_over_runs(axes[0, 0], steps, [rows[column].to_list() for rows in seeds], color, label)
    axes[0, 0].set_ylim(-0.03, 1.03)
    finish(axes[0, 0], "adversarial training", "epoch", "accuracy (PGD where robust)")
    return figure


FIGURES: dict[str, dict[str, Callable[[Run], Figure]]] = {
    "image-landscape": {"landscape": landscape, "flatness": flatness},
    "image-landscape-cifar10": {"landscape": landscape, "flatness": flatness},
    "image-overfitting": {"overfitting": overfitting},
}
