"""What a certificate is: arrays, the constants that they are held to, and what was said of them. As
one file it
is a safetensors file whose header holds the constants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from featscope.certificates.arrays import REMEDY
from featscope.core.errors import BadInput

#: the entry of a file's header that says that it is a certificate of its own
HEADER = "featscope-certificate"
FORM = "a run's tensors lie beside its spec.json; a certificate of its own is written by `verify --export`"


@dataclass(frozen=True)
class Certificate:
    """Arrays of one kind with their constants; ``stated`` is what the run says that they prove."""

    kind: str
    place: str
    arrays: Mapping[str, np.ndarray]
    constants: Mapping[str, Any]
    stated: Mapping[str, Any] = field(default_factory=dict)

    def array(self, name: str) -> np.ndarray:
        """An array; one that is not there is no certificate."""
        if name not in self.arrays:
            raise BadInput("a part of the certificate is missing", f"{self.place}: {name}", REMEDY)
        return self.arrays[name]

    def numbers(self, name: str) -> np.ndarray:
        """An array in float64."""
        return self.array(name).astype(np.float64)

    def constant(self, name: str) -> float:
        """A constant; one that is not there, or is no number, is no certificate."""
        value = self.constants.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput("a constant of the certificate is missing", f"{self.place}: {name}", REMEDY)
        return float(value)


@dataclass(frozen=True)
class Recheck:
    """What a certificate proves, and why it is refused if it is."""

    proves: str
    refused: str | None = None


def save(certificate: Certificate, path: Path) -> None:
    """Write a certificate as one file."""
    body = {
        "kind": certificate.kind,
        "place": certificate.place,
        "constants": dict(certificate.constants),
        "stated": dict(certificate.stated),
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in certificate.arrays.items()}
    save_file(arrays, path, {HEADER: json.dumps(body)})


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a safetensors file and its header."""
    try:
        with safe_open(str(path), "np") as file:
            names = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise BadInput("not a file of arrays", f"{path}: {' '.join(str(error).split())[:80]}", FORM) from None


def load_certificate(path: Path) -> Certificate:
    """Read a certificate from a file of its own."""
    arrays, header = read_arrays(path)
    try:
        body = json.loads(header[HEADER])
        kind, place = str(body["kind"]), str(body["place"])
        return Certificate(kind, place, arrays, dict(body["constants"]), dict(body["stated"]))
    except (KeyError, ValueError, TypeError):
        raise BadInput("the file does not say what it certifies", str(path), FORM) from None
