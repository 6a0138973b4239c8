"""What a probe has finished, kept in its folder: a step that is there is read, not made again, so that a
probe that was killed goes on and ends with the same numbers.

Each step is one safetensors file with its tensors, and its numbers in the header; it appears whole or not at
all. Decisions that depend on the clock (how many examples a budget allows) are steps too.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from featscope.core.errors import require
from featscope.core.files import damaged, write_bytes
from featscope.core.progress import Progress, Silent
from featscope.probe.subject import Subject

#: a step's result: tensors and what JSON can say, by name
Step = dict[str, Any]
#: the entry of a file's header that holds what is no tensor
REST = "rest"
PARTS, PERTURBATIONS = "parts", "perturbations"


@dataclass
class Keep:
    """The steps of one probe, in its folder or, without one, in memory."""

    subject: Subject
    folder: Path | None = None
    progress: Progress = field(default_factory=Silent)
    _memory: dict[str, Step] = field(default_factory=dict)

    def once(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Step:
        """The step of that name: read if it is there, otherwise made and stored."""
        require(
            re.fullmatch(r"[\w.-]+", name) is not None,
            "a step's name is one word",
            name,
            "use letters, digits, - and _",
        )
        if name not in self._memory:
            path = self._place(PARTS, name)
            if path is None or not path.exists():
                self._write(path, made := dict(make()))
                self._memory[name] = made
            else:
                self._memory[name] = _read(path)
        return self._memory[name]

    def has(self, name: str) -> bool:
        """Whether a step is finished."""
        path = self._place(PARTS, name)
        return name in self._memory or (path is not None and path.exists())

    @property
    def cost(self) -> float:
        """Seconds that one example costs forward and backward, measured once: what it decides stays so."""
        return float(self.once("cost", lambda: {"seconds": _seconds(self.subject)})["seconds"])

    def perturbations(self, name: str, index: Tensor, delta: Tensor, train: bool = False) -> None:
        """Save perturbations of the examples ``index`` (of the training examples if ``train``), each of which
        is said to fool the network; `featscope verify` holds them to it."""
        path = self._place(PERTURBATIONS, name)
        if path is None or path.exists() or not len(index):
            return
        subject = self.subject
        x, y = (subject.train_x, subject.train_y) if train else (subject.x, subject.y)
        assert x is not None
        assert y is not None
        size = _norms(delta, subject.norm)
        arrays = {"x": x[index], "y": y[index], "index": index, "delta": delta, "size": size}
        self._write(path, {**arrays, "norm": subject.norm, "bounds": subject.bounds})

    def report(self, label: str, step: int, steps: int, **facts: float) -> None:
        """Show progress."""
        self.progress.report(label, step, steps, facts)

    def _place(self, kind: str, name: str) -> Path | None:
        return None if self.folder is None else self.folder / kind / f"{name}.safetensors"

    def _write(self, path: Path | None, step: Step) -> None:
        """Write a step whole, or not at all."""
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {key: v.detach().cpu().contiguous() for key, v in step.items() if isinstance(v, Tensor)}
        rest = {key: value for key, value in step.items() if key not in tensors}
        spare = path.with_name(path.name + ".new")
        write_bytes(spare, to_safetensors(tensors, {REST: json.dumps(rest)}))
        spare.replace(path)


def _read(path: Path) -> Step:
    try:
        with safe_open(str(path), "pt") as file:
            tensors: Step = {name: file.get_tensor(name) for name in list(file.keys())}
            return {**tensors, **json.loads((file.metadata() or {})[REST])}
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise damaged(path, error, f"delete {path} and repeat the command") from None


def read_step(folder: Path, name: str) -> Step:
    """A finished step of a probe's folder."""
    return _read(folder / PARTS / f"{name}.safetensors")


def _norms(delta: Tensor, norm: str) -> Tensor:
    sizes: Tensor = torch.linalg.vector_norm(delta.flatten(1), torch.inf if norm == "Linf" else 2, dim=1)
    return sizes


def _seconds(subject: Subject, examples: int = 32, rounds: int = 3) -> float:
    """The best of a few rounds: other work on the machine only adds."""
    x = subject.x[:examples].clone().requires_grad_(True)

    def once() -> float:
        begin = time.perf_counter()
        torch.autograd.grad(subject.network(x).sum(), x, allow_unused=True)
        return (time.perf_counter() - begin) / len(x)

    return min(once() for _ in range(rounds + 1))
