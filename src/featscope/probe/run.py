"""The whole probe: preflight → robustness → the four parts → diagnosis → probe.json and probe.html."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from featscope import __version__
from featscope.core.errors import BadInput, FeatscopeError, require_whole
from featscope.core.files import digest, read_json, write_json
from featscope.core.health import without_gaps
from featscope.core.locks import locked
from featscope.core.progress import Progress, Silent
from featscope.images.weights import content_hash
from featscope.probe import (
    averaging,
    data_limits,
    diagnosis,
    feature_use,
    memorising,
    plan,
    robustness,
    written,
)
from featscope.probe.admission import AUTO, Bounds, Given, admitted, lent
from featscope.probe.findings import Sign
from featscope.probe.keep import Keep
from featscope.probe.known import CommonGround
from featscope.probe.preflight import Preflight, look
from featscope.probe.subject import Subject

#: the version of probe.json's form; a key is added without, but never renamed or given another meaning
SCHEMA = 1
DOCUMENT, PAGE, SPEC = "probe.json", "probe.html", "spec.json"
#: the four theories' parts, by the name of their entry
MECHANISMS: dict[str, Callable[[Subject, float, Keep], Any]] = {
    "data_limits": data_limits.measure,
    "feature_use": feature_use.measure,
    "averaging": averaging.measure,
    "memorising": memorising.measure,
}


@dataclass(frozen=True, eq=False, repr=False)
class Probe:
    """A finished probe: ``document`` is what probe.json holds, ``folder`` where it lies, if anywhere."""

    document: dict[str, Any]
    folder: Path | None = None

    @property
    def established(self) -> bool:
        """Whether nothing speaks against the robust accuracy."""
        return bool(self.document["robustness"]["established"])

    @property
    def verdict(self) -> str:
        """How robust, in one sentence; a masked network gets no number alone."""
        return str(self.document["robustness"]["verdict"])

    @property
    def warnings(self) -> list[str]:
        """What speaks against the numbers, one sentence each."""
        return [entry["sentence"] for entry in self.document["robustness"]["findings"] if entry["alarm"]]

    @property
    def diagnosis(self) -> dict[str, Any]:
        """The four mechanisms side by side."""
        found: dict[str, Any] = self.document.get("diagnosis") or {}
        return found

    def __getitem__(self, part: str) -> dict[str, Any]:
        found: dict[str, Any] = self.document[part]
        return found

    def lines(self) -> list[str]:
        """What a person wants to read first."""
        clean = self.document["preflight"]["clean"]
        first = f"clean accuracy {clean['value']:.1%} ({clean['low']:.1%} to {clean['high']:.1%})"
        told = [_told(entry) for entry in self.diagnosis.get("mechanisms", [])]
        doubts = [f"  ! {text}" for text in self.warnings]
        return [first, self.verdict, *doubts, *(text for text in told if text), *self._apart()]

    def _apart(self) -> list[str]:
        """Why the numbers are not placed among the reference networks, said once."""
        found = [entry["among"] for entry in self.diagnosis.get("mechanisms", []) if _refused(entry)]
        return list(dict.fromkeys(found))

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def _refused(entry: Mapping[str, Any]) -> bool:
    return bool((entry.get("position") or {}).get("not_comparable"))


def _told(entry: Mapping[str, Any]) -> str:
    """A mechanism's sentence, and where its number lies among the reference networks."""
    sentence = str(entry.get("sentence", ""))
    where = "" if _refused(entry) else entry.get("among")
    return f"{sentence}; {where}" if where else sentence


def probe(
    model: Any,
    x: Any,
    y: Any,
    *,
    eps: float,
    norm: str = "Linf",
    bounds: Bounds | str = AUTO,
    train: tuple[Any, Any] | None = None,
    groups: Tensor | Sequence[int] | None = None,
    names: Sequence[str] = (),
    data_name: str | None = None,
    layer: str | None = None,
    reference: Any = None,
    budget: str | float = "10m",
    out: str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Probe:
    """Probe any torch classifier: how robust it is and whether that can be trusted, and which of the four
    theories' mechanisms it shows.

    ``bounds`` are those of the inputs; by default [0, 1] for images inside it, none otherwise. ``train`` are
    training examples (x, y), ``groups`` a coarser label for each class, ``reference`` a network whose
    features are trusted, ``budget`` the time that it may take. ``data_name`` is the data set's, as `featscope
    data list` has it: numbers are placed among reference networks of the same data, norm and radius. With
    ``out`` the probe is written there and goes on from there when it was stopped.

    >>> import torch, featscope as fs
    >>> x = torch.randn(40, 6, generator=fs.stream(0, "x"))
    >>> model = torch.nn.Linear(6, 2).requires_grad_(False)
    >>> found = fs.probe(model, x, model(x).argmax(-1), eps=0.1, budget="20s")
    >>> found.established, found["robustness"]["certificate"]["method"]
    (True, 'linear bounds')
    """
    seconds = plan.seconds(budget)
    chosen = None if groups is None else torch.as_tensor(groups)
    with lent(model) as network, _lent_reference(reference) as other:
        given = Given(eps, norm, bounds, train, chosen, names, layer, other, require_whole("seed", seed, 0))
        subject = admitted(network, x, y, given)
        folder = None if out is None else Path(out)
        with _place(folder):
            run = _Run(subject, model, given.notes, seconds, folder, progress or Silent(), say, data_name)
            return run.document()


@contextlib.contextmanager
def _lent_reference(reference: Any) -> Iterator[nn.Module | None]:
    if reference is None:
        yield None
        return
    with lent(reference) as network:
        yield network


@contextlib.contextmanager
def _place(folder: Path | None) -> Iterator[None]:
    """Be the only one who writes there."""
    if folder is None:
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise BadInput("a probe needs a folder, and this is a file", str(folder), "name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        yield


@dataclass
class _Run:
    """One probe on its way."""

    subject: Subject
    model: Any
    notes: list[str]
    seconds: float
    folder: Path | None
    progress: Progress
    say: Callable[[str], None]
    data_name: str | None = None
    entries: dict[str, Any] = field(default_factory=dict)

    def document(self) -> Probe:
        """All parts in order, written when they are complete."""
        spec = identity(self.subject, self.seconds)
        finished = _finished(self.folder, spec)
        if finished is not None and finished["subject"].get("data_name") == self.data_name:
            self.say(f"found finished in {self.folder}")
            return Probe(finished, self.folder)
        if self.folder is not None:
            write_json(self.folder / SPEC, spec)
        keep = Keep(self.subject, self.folder, self.progress)
        before = look(self.subject, self.notes, self.model)
        self._announce(before, keep)
        written.network(keep)
        first = robustness.measure(self.subject, self._share("robustness"), keep, before.findings)
        self.entries = {"preflight": before.as_json(), "robustness": first.as_json()}
        self._mechanisms(keep)
        about = {**spec, "data_name": self.data_name}
        whole, _ = without_gaps(
            {"schema": SCHEMA, "featscope": __version__, "subject": about, **self.entries}
        )
        if self.folder is not None:
            _page(self.folder, whole, self.subject, keep)
            write_json(self.folder / DOCUMENT, whole)
        return Probe(whole, self.folder)

    def _share(self, part: str) -> float:
        return plan.SHARES[part] * self.seconds

    def _announce(self, before: Preflight, keep: Keep) -> None:
        """Say what will be done and how long it takes, before it is done."""
        for finding in before.findings:
            if finding.alarm or finding.remedy:
                self.say(f"{'!' if finding.alarm else '·'} {finding.sentence}; {finding.remedy}")
        for note in before.notes:
            self.say(f"· {note}")
        chosen = plan.effort(self._share("robustness"), keep.cost, len(self.subject.y), self.subject.classes)
        minutes = self.seconds / 60
        self.say(
            f"{chosen.examples} of {len(self.subject.y)} examples, ascents of {chosen.steps} steps, "
            f"{chosen.queries} queries without gradients, then four mechanisms: about {minutes:.3g} minutes"
        )

    def _mechanisms(self, keep: Keep) -> None:
        """The four parts and the diagnosis; what a part cannot measure it says in one line."""
        for number, (name, measure) in enumerate(MECHANISMS.items()):
            self.progress.report("mechanisms", number, len(MECHANISMS), {})
            try:
                self.entries[name] = measure(self.subject, self._share(name), keep).as_json()
            except FeatscopeError as error:
                self.entries[name] = {"title": name.replace("_", " "), "skipped": str(error)}
        self.entries["diagnosis"] = diagnosis.diagnose(
            self.entries, CommonGround(self.data_name, self.subject.norm, self.subject.eps)
        )
        self.progress.report("mechanisms", len(MECHANISMS), len(MECHANISMS), {})


def _page(folder: Path, document: Mapping[str, Any], subject: Subject, keep: Keep) -> None:
    from featscope.probe import page  # what draws is loaded when there is something to draw

    page.write(folder / PAGE, document, subject, keep)


def identity(subject: Subject, seconds: float) -> dict[str, Any]:
    """What makes two probes the same: network, data, threat, seed and budget."""
    train = None if subject.train_x is None else [*subject.train_x.shape]
    parameters = sum(parameter.numel() for parameter in subject.network.parameters())
    return {
        "network": content_hash(dict(subject.network.state_dict())),
        "kind": _kind(subject.network),
        "parameters": parameters,
        "reference": None
        if subject.reference is None
        else content_hash(dict(subject.reference.state_dict())),
        "data": _hash(subject.x, subject.y, subject.train_x, subject.train_y, subject.groups),
        "examples": len(subject.y),
        "shape": [*subject.x.shape[1:]],
        "train": train,
        "classes": list(subject.names),
        "norm": subject.norm,
        "eps": subject.eps,
        "bounds": None if subject.bounds is None else list(subject.bounds),
        "seed": subject.seed,
        "seconds": seconds,
    }


def _kind(network: nn.Module) -> str:
    inner = network
    while type(inner).__module__ == "featscope.nets.adapters" and hasattr(inner, "net"):
        inner = inner.net  # type: ignore[assignment]
    return type(inner).__name__


def _hash(*tensors: Tensor | None) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(b"none" if tensor is None else tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def _finished(folder: Path | None, spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """The document of this probe if it is there; another probe's folder is refused."""
    if folder is None or not (folder / SPEC).exists():
        return None
    before = read_json(folder / SPEC)
    if digest(before) != digest(without_gaps(dict(spec))[0]):
        changed = [key for key, value in spec.items() if before.get(key) != value]
        raise BadInput(
            "the folder holds another probe",
            f"{folder} (another {', '.join(changed[:3])})",
            "name another folder, or delete this one",
        )
    if not (folder / DOCUMENT).exists():
        return None
    found: dict[str, Any] = read_json(folder / DOCUMENT)
    return found


def alarms(document: Mapping[str, Any]) -> list[Sign]:
    """The alarms of a document."""
    return [Sign(**entry) for entry in document["robustness"]["findings"] if entry["alarm"]]
