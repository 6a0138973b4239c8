"""The front door: what a Python user calls. Each function is a few lines over the package, and its example is
run by the tests."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from torch import Tensor

from featscope.attacks.curve import require_ascending
from featscope.attacks.suite import assess_curve, usual_attacks
from featscope.attacks.threat import Threat
from featscope.claims import book, ledger
from featscope.claims.registry import claims as all_claims
from featscope.core.errors import require, require_at_least, require_whole
from featscope.core.linearise import Model
from featscope.core.stats import Interval, wilson
from featscope.core.store import Store
from featscope.experiments import runner
from featscope.experiments.highlights import key_numbers
from featscope.experiments.registry import experiment
from featscope.experiments.registry import experiments as all_experiments
from featscope.experiments.run import Run
from featscope.experiments.spec import first_seeds, request
from featscope.report.figures import figures

if TYPE_CHECKING:
    from featscope.plots.picture import Picture

T = TypeVar("T")


def _html_table(lines: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    titles = "".join(f"<th>{html.escape(title)}</th>" for title in head)
    rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in lines]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in ([titles] if head else []) + rows) + "</table>"


class Listing(list[T], Generic[T]):
    """A list that shows itself as a table, in a terminal and in a notebook; ``columns`` say what of an item
    is shown."""

    def __init__(self, items: Sequence[T], columns: Mapping[str, Callable[[T], str]]) -> None:
        super().__init__(items)
        self._columns = dict(columns)

    def _lines(self) -> list[list[str]]:
        return [[cell(item) for cell in self._columns.values()] for item in self]

    def __repr__(self) -> str:
        lines = [list(self._columns), *self._lines()]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
        return "\n".join("  ".join(line).rstrip() for line in padded)

    def _repr_html_(self) -> str:
        return _html_table(self._lines(), list(self._columns))


def _short(value: object, most: int = 120) -> str:
    """A value as a cell of a table holds it."""
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, repr=False)
class FinishedRun(Run):
    """A finished run: ``settings``, ``summary``, ``rows`` (a polars frame), ``part(name)``, ``tensors``,
    ``figures()``."""

    def figures(self) -> dict[str, Picture]:
        """The run's figures by name, drawn from its rows now: each shows itself in a notebook, and has
        ``save(path)``."""
        return figures(self)

    @property
    def key_numbers(self) -> list[tuple[str, str]]:
        """What a person wants to read of the run: meaning and value."""
        return key_numbers(experiment(self.experiment).highlights, self.summary)

    def __repr__(self) -> str:
        lines = [f"run of {self.experiment} in {self.path}, {self.rows.height} rows"]
        return "\n".join(lines + [f"  {meaning}: {value}" for meaning, value in self.key_numbers])

    def _repr_html_(self) -> str:
        place = html.escape(f"{self.experiment} in {self.path}, {self.rows.height} rows")
        return f"<p>{place}</p>{_html_table(self.key_numbers)}"


def run(
    name: str,
    *,
    profile: str = "cpu",
    out: str | Path = "runs",
    seeds: int | Sequence[int] | None = None,
    force: bool = False,
    **settings: Any,
) -> FinishedRun:
    """Run an experiment, or find its finished run below ``out``.

    ``settings`` are those of ``featscope run --set``; a key with levels, such as law.d, is written ``law__d``
    where ``d`` alone is not enough. ``seeds`` is how many, 0 … N−1, or which. ``force`` runs it again.

    >>> import featscope as fs
    >>> run = fs.run("signal-lemmas", profile="quick", out=folder, rates=[0.1, 1.0])
    >>> run.settings.rates, run.summary["A.1"] < 1, run.rows.height > 0
    ((0.1, 1.0), True, True)
    """
    wanted = request(experiment(name), profile, _changes(settings, seeds))
    return FinishedRun(runner.run(wanted, Store(Path(out)), force=force).path)


def _changes(settings: Mapping[str, Any], seeds: int | Sequence[int] | None) -> dict[str, Any]:
    """Settings as `--set` has them."""
    changes = {key.replace("__", "."): value for key, value in settings.items()}
    return changes if seeds is None else {**changes, "seeds": _seeds(seeds)}


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds that are meant: how many, or which."""
    if isinstance(seeds, Iterable) and not isinstance(seeds, str):
        return list(seeds)
    return first_seeds(seeds)


def check(
    *ids: str,
    paper: str | None = None,
    profile: str = "cpu",
    out: str | Path = "runs",
    images: bool = False,
    jobs: int = 1,
    seeds: int | Sequence[int] | None = None,
    **settings: Any,
) -> Listing[ledger.Line]:
    """Judge claims, running what they need and is not below ``out``: one line for each reading, shown as a
    table.

    Without ids: all claims on synthetic data, of one ``paper`` if named, with ``images`` also those whose
    data is there. A line has ``verdict``, ``value``, ``bound``, ``low``, ``high`` and ``evidence``. With
    ``settings`` (as in ``run``) another setting is judged, by those readings whose experiments have them.

    >>> import featscope as fs
    >>> [line.verdict for line in fs.check("CG-LA.1", profile="quick", out=folder)]
    ['HOLDS']
    >>> fs.check("CG-LA.1", profile="quick", out=folder, rates=[0.1, 1.0])[0].settings
    {'rates': [0.1, 1.0]}
    """
    require_whole("jobs", jobs, 1)
    changes, chosen = _changes(settings, seeds), ledger.select(ids, paper, profile, images)
    lines = list(ledger.check(chosen, profile, Store(Path(out)), jobs=jobs, settings=changes))
    book.merge(Path(out), lines, profile)
    columns: dict[str, Callable[[ledger.Line], str]] = {
        "claim": lambda line: line.id,
        "reading": lambda line: line.reading,
        "verdict": lambda line: line.verdict,
        "value": lambda line: _short(line.value),
        "rule": lambda line: f"{line.direction} {_short(line.bound)}",
        "interval": lambda line: "" if line.low is None else f"{_short(line.low)} … {_short(line.high)}",
        "statement": lambda line: _short(line.statement, 60),
    }
    return Listing(lines, columns)


def experiments() -> Listing[str]:
    """The names of all experiments, shown with what each is about.

    >>> import featscope as fs
    >>> "patch-fig3" in fs.experiments()
    True
    """
    return _listing("experiment", all_experiments(), "paper", "shows")


def claims() -> Listing[str]:
    """The ids of all claims, shown with their statements.

    >>> import featscope as fs
    >>> "AT-T4.4" in fs.claims()
    True
    """
    return _listing("claim", all_claims(), "reference", "statement")


def _listing(title: str, registered: Mapping[str, Any], *facts: str) -> Listing[str]:
    """Names with what is said of each."""
    columns: dict[str, Callable[[str], str]] = {title: str}
    columns |= {fact: lambda name, fact=fact: str(getattr(registered[name], fact)) for fact in facts}  # type: ignore[misc]
    return Listing(list(registered), columns)


@dataclass(frozen=True, repr=False)
class RobustnessCurve:
    """Robust accuracy over ascending radii, each against the whole ensemble: upper bounds with their
    intervals.

    ``fooled_at`` is the first radius at which each example fell (0: at once, ∞: none) and ``delta`` what
    fooled it; ``warnings`` say what speaks against the numbers.
    """

    radii: list[float]
    norm: str
    fooled_at: Tensor
    delta: Tensor
    warnings: list[str] = field(default_factory=list)

    def robust(self, radius: float) -> Tensor:
        """Which examples withstood every attack at a radius of the list."""
        return self.fooled_at > radius

    @property
    def accuracy(self) -> list[float]:
        """The share of robust examples at each radius."""
        return [_share(self.robust(radius)) for radius in self.radii]

    @property
    def interval(self) -> list[Interval]:
        """The interval of each share (Wilson, 95 %): the examples are a sample."""
        return [_interval(self.robust(radius)) for radius in self.radii]

    @property
    def clean(self) -> float:
        """Accuracy without an attack."""
        return _share(self.robust(0.0))

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against the numbers."""
        return not self.warnings

    def __repr__(self) -> str:
        points = ", ".join(
            f"{share:.1%} at {eps:.4g}" for eps, share in zip(self.radii, self.accuracy, strict=True)
        )
        return f"robust accuracy ({self.norm}): at most {points}\n" + _told(
            self.clean, self.fooled_at, self.warnings
        )


@dataclass(frozen=True, repr=False)
class Robustness:
    """Robust accuracy at one radius: the share of examples that no attack of the ensemble fooled, an upper
    bound.

    ``robust`` says which they are, ``delta`` holds the perturbations, ``warnings`` say what speaks against
    the number.
    """

    eps: float
    norm: str
    clean: float
    robust: Tensor
    delta: Tensor
    warnings: list[str] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """The share of robust examples."""
        return _share(self.robust)

    @property
    def interval(self) -> Interval:
        """The interval of the share (Wilson, 95 %): the examples are a sample."""
        return _interval(self.robust)

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against the number."""
        return not self.warnings

    def __repr__(self) -> str:
        spread = f"{self.interval.low:.1%} to {self.interval.high:.1%}"
        first = f"robust accuracy at most {self.accuracy:.1%} ({spread}) at {self.norm} radius {self.eps:.4g}"
        return f"{first}\n" + _told(self.clean, self.robust, self.warnings)


def _share(right: Tensor) -> float:
    return float(right.double().mean())


def _interval(right: Tensor) -> Interval:
    return wilson(int(right.sum()), len(right))


def _told(clean: float, examples: Tensor, warnings: Sequence[str]) -> str:
    """The second and the third line of a result."""
    doubts = (
        "not to be trusted: " + "; ".join(warnings) if warnings else "trusted: no check speaks against it"
    )
    return f"clean accuracy {clean:.1%} of {len(examples)} examples\n{doubts}"


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
    """Robust accuracy of any torch classifier over ascending radii; arguments and checks are those of
    ``robustness``.

    >>> import torch, featscope as fs
    >>> x = torch.tensor([[0.9, 0.5], [0.1, 0.5], [0.45, 0.5]])
    >>> model = lambda x: torch.stack([x[:, 0] - 0.5, 0.5 - x[:, 0]], 1)
    >>> curve = fs.robustness_curve(model, x, torch.tensor([0, 1, 1]), radii=[0.01, 0.1, 0.45])
    >>> [round(share, 2) for share in curve.accuracy]
    [1.0, 0.67, 0.0]
    """
    require(
        isinstance(x, Tensor), "images must be a torch tensor", type(x).__name__, "use torch.as_tensor(x)"
    )
    listed = _radii(radii)
    attacks, doubts = usual_attacks(x, require_whole("steps", steps, 1))
    threat = Threat(norm, max(listed), event=max(x.dim() - 1, 1), bounds=bounds)
    seed, batch = require_whole("seed", seed, 0), require_whole("batch", batch, 1)
    found = assess_curve(model, x, y, threat, listed, attacks, seed, batch)
    return RobustnessCurve(listed, norm, found.fooled_at, found.delta, doubts + found.warnings)


def _radii(radii: Sequence[float]) -> list[float]:
    """Ascending radii as a list of numbers."""
    several = isinstance(radii, Iterable) and not isinstance(radii, str)
    require(several, "radii are a list of numbers", f"radii={radii!r}", "write [0.1], or use fs.robustness")
    listed = [require_at_least("eps", float(r) if isinstance(r, Tensor) else r, 0.0) for r in radii]
    require(bool(listed), "a curve needs radii", "radii=[]", "give at least one")
    require_ascending(listed)
    return listed


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
    """Robust accuracy of any torch classifier (images in, logits out) within a radius, with interval and
    warnings.

    The attacks: PGD, adaptive PGD on two losses, PGD at every wrong class, the nearest way to the likeliest
    classes, and on images and vectors a search without gradients, each of ``steps`` steps. ``bounds`` are
    those of the inputs, None for none; ``norm`` is Linf or L2.

    >>> import torch, featscope as fs
    >>> x = torch.tensor([[0.9, 0.5], [0.1, 0.5], [0.45, 0.5]])
    >>> model = lambda x: torch.stack([x[:, 0] - 0.5, 0.5 - x[:, 0]], 1)
    >>> found = fs.robustness(model, x, torch.tensor([0, 1, 1]), eps=0.1)
    >>> found.clean, found.robust.tolist()
    (1.0, [True, True, False])
    """
    options: dict[str, Any] = {"norm": norm, "bounds": bounds, "steps": steps, "seed": seed, "batch": batch}
    curve = robustness_curve(model, x, y, [eps], **options)
    return Robustness(eps, norm, curve.clean, curve.robust(eps), curve.delta, curve.warnings)
