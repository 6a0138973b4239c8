"""The front door: what a Python user calls. Each function is a few lines over the package; its docstring's example is run by the tests."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor

from featscope.attacks.suite import assess, assess_curve, ensemble
from featscope.attacks.threat import Threat
from featscope.claims import ledger
from featscope.claims.registry import claims as all_claims
from featscope.core.errors import require, require_at_least
from featscope.core.linearise import Model
from featscope.core.stats import Interval, wilson
from featscope.core.store import Store
from featscope.experiments import runner
from featscope.experiments.registry import experiment
from featscope.experiments.registry import experiments as all_experiments
from featscope.experiments.run import Run
from featscope.experiments.spec import request
from featscope.report.figures import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")


class Shown(list[T], Generic[T]):
    """A list that shows itself as a table, in a terminal and in a notebook."""

    def __init__(self, items: Sequence[T], columns: Mapping[str, Sequence[str]]) -> None:
        super().__init__(items)
        self._columns = dict(columns)

    def _lines(self) -> Iterator[tuple[str, ...]]:
        yield tuple(self._columns)
        yield from zip(*self._columns.values(), strict=True)

    def __repr__(self) -> str:
        lines = list(self._lines())
        widths = [max(len(line[i]) for line in lines) for i in range(len(self._columns))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        head, *body = self._lines()
        cells = ["<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>"]
        cells += ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in body]
        return f"<table>{''.join(cells)}</table>"


@dataclass(frozen=True)
class FinishedRun(Run):
    """A finished run: ``settings``, ``summary``, ``rows`` (a polars frame), ``tensors``, ``figures()``."""

    def figures(self) -> dict[str, Figure]:
        """The run's figures by name, drawn now (matplotlib)."""
        return figures(self)

    def __repr__(self) -> str:
        keys = ", ".join(list(self.summary)[:6])
        return f"run of {self.experiment} in {self.path}\n{self.rows.height} rows; summary: {keys}"

    def _repr_html_(self) -> str:
        lines = [f"<tr><th>{html.escape(key)}</th><td>{html.escape(_short(value))}</td></tr>" for key, value in self.summary.items()]
        return f"<p>{html.escape(self.experiment)} in {html.escape(str(self.path))}</p><table>{''.join(lines)}</table>"


def _short(value: object, most: int = 120) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def run(
    name: str, *, profile: str = "cpu", out: str | Path = "runs", seeds: int | None = None, force: bool = False, **settings: Any
) -> FinishedRun:
    """Run an experiment, or find its finished run; settings are the keys of ``featscope run --set`` (``law.d`` may be written ``law__d``).

    >>> import featscope as fs
    >>> done = fs.run("signal-lemmas", profile="quick", out=folder)
    >>> done.experiment, done.rows.height > 0
    ('signal-lemmas', True)
    """
    changes = {key.replace("__", "."): value for key, value in settings.items()}
    if seeds is not None:
        changes["seeds"] = list(range(require_at_least("seeds", seeds, 1)))
    return FinishedRun(runner.run(request(experiment(name), profile, changes), Store(Path(out)), force=force).path)


def check(
    *ids: str, paper: str | None = None, profile: str = "cpu", out: str | Path = "runs", images: bool = False, jobs: int = 1
) -> Shown[ledger.Line]:
    """Judge claims, running what they need; without ids all on synthetic data. A list of lines that shows itself as a table.

    >>> import featscope as fs
    >>> [line.verdict for line in fs.check("CG-LA.1", profile="quick", out=folder)]
    ['HOLDS']
    """
    lines = list(ledger.check(ledger.select(ids, paper, images), profile, Store(Path(out)), jobs=jobs))
    columns = {
        "claim": [line.id for line in lines],
        "reading": [line.reading for line in lines],
        "verdict": [line.verdict for line in lines],
        "value": [_number(line.value) for line in lines],
        "bound": [_number(line.bound) for line in lines],
    }
    return Shown(lines, columns)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def experiments() -> Shown[str]:
    """The names of all experiments, shown with what each is about.

    >>> import featscope as fs
    >>> "patch-fig3" in fs.experiments()
    True
    """
    plans = list(all_experiments().values())
    columns = {"experiment": [p.name for p in plans], "paper": [p.paper for p in plans], "shows": [p.shows for p in plans]}
    return Shown([plan.name for plan in plans], columns)


def claims() -> Shown[str]:
    """The ids of all claims, shown with their statements.

    >>> import featscope as fs
    >>> "AT-T4.4" in fs.claims()
    True
    """
    stated = list(all_claims().values())
    columns = {"claim": [c.id for c in stated], "reference": [c.reference for c in stated], "statement": [c.statement for c in stated]}
    return Shown([claim.id for claim in stated], columns)


@dataclass(frozen=True)
class Robustness:
    """Robust accuracy at one radius: no attack of the ensemble fooled these examples. An upper bound; ``warnings`` say what speaks against it."""

    eps: float
    norm: str
    accuracy: float
    interval: Interval
    clean: float
    warnings: list[str]
    delta: Tensor = field(repr=False)
    robust: Tensor = field(repr=False)

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against the number."""
        return not self.warnings

    def __repr__(self) -> str:
        first = f"robust accuracy at most {self.accuracy:.1%} ({self.interval.low:.1%} to {self.interval.high:.1%}) at {self.norm} radius {self.eps:.4g}"
        return "\n".join([first, f"clean accuracy {self.clean:.1%} of {len(self.robust)} examples", _doubts(self.warnings)])


@dataclass(frozen=True)
class RobustnessCurve:
    """Robust accuracy over ascending radii, each against the whole ensemble; ``fooled_at`` is the first radius at which each example fell (∞: none)."""

    radii: list[float]
    norm: str
    accuracy: list[float]
    interval: list[Interval]
    clean: float
    warnings: list[str]
    fooled_at: Tensor = field(repr=False)

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against the numbers."""
        return not self.warnings

    def __repr__(self) -> str:
        ends = f"{self.accuracy[0]:.1%} at {self.radii[0]:.4g}, {self.accuracy[-1]:.1%} at {self.radii[-1]:.4g}"
        first = f"robust accuracy over {len(self.radii)} {self.norm} radii: at most {ends}"
        return "\n".join([first, f"clean accuracy {self.clean:.1%} of {len(self.fooled_at)} examples", _doubts(self.warnings)])


def _doubts(warnings: Sequence[str]) -> str:
    return "not to be trusted: " + "; ".join(warnings) if warnings else "nothing speaks against it"


def _proportion(right: Tensor) -> Interval:
    return wilson(int(right.sum()), len(right))


def robustness(
    model: Model,
    x: Tensor,
    y: Tensor,
    eps: float,
    *,
    norm: str = "Linf",
    bounds: tuple[float, float] | None = (0.0, 1.0),
    steps: int = 50,
    seed: int = 0,
    batch: int = 250,
) -> Robustness:
    """Robust accuracy of any torch classifier (logits out) at one radius, against the ensemble, with an interval and warnings.

    >>> import torch, featscope as fs
    >>> x = torch.tensor([[0.9, 0.5], [0.1, 0.5], [0.45, 0.5]])
    >>> model = lambda x: torch.stack([x[:, 0] - 0.5, 0.5 - x[:, 0]], 1)
    >>> fs.robustness(model, x, torch.tensor([0, 1, 1]), eps=0.1).robust.tolist()
    [True, True, False]
    """
    threat = Threat(norm, eps, event=x.dim() - 1, bounds=bounds)
    found = assess(model, x, y, threat, _attacks(x, steps), seed, batch)
    right = found.evaluation.robust
    clean = float(found.evaluation.clean.double().mean())
    return Robustness(eps, norm, found.accuracy, _proportion(right), clean, found.warnings, found.evaluation.delta, right)


def robustness_curve(
    model: Model,
    x: Tensor,
    y: Tensor,
    radii: Sequence[float],
    *,
    norm: str = "Linf",
    bounds: tuple[float, float] | None = (0.0, 1.0),
    steps: int = 50,
    seed: int = 0,
    batch: int = 250,
) -> RobustnessCurve:
    """The same over ascending radii, with the same attacks and checks at each.

    >>> import torch, featscope as fs
    >>> x = torch.tensor([[0.9, 0.5], [0.1, 0.5], [0.45, 0.5]])
    >>> model = lambda x: torch.stack([x[:, 0] - 0.5, 0.5 - x[:, 0]], 1)
    >>> fs.robustness_curve(model, x, torch.tensor([0, 1, 1]), radii=[0.01, 0.1, 0.45]).accuracy
    [1.0, 0.6666666666666666, 0.0]
    """
    require(len(radii) > 0, "a curve needs radii", "radii=[]", "give at least one")
    threat = Threat(norm, max(radii), event=x.dim() - 1, bounds=bounds)
    found = assess_curve(model, x, y, threat, list(radii), _attacks(x, steps), seed, batch)
    right = [found.fooled_at > radius for radius in radii]
    clean = float((found.fooled_at > 0).double().mean())
    return RobustnessCurve(
        list(radii),
        norm,
        [float(r.double().mean()) for r in right],
        [_proportion(r) for r in right],
        clean,
        found.warnings,
        found.fooled_at,
    )


def _attacks(x: Tensor, steps: int) -> list[Any] | None:
    require_at_least("steps", steps, 1)
    require(isinstance(x, torch.Tensor), "examples must be a torch tensor", type(x).__name__, "use torch.as_tensor(x)")
    return ensemble(steps) if x.dim() == 4 else None
