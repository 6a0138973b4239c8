"""Readers of the official file formats. Each takes bytes and returns uint8 arrays: images (N, H, W, C),
labels (N).

A file that is not what it should be — an HTML page, a truncated download, another format — is a one-line
error. Nothing is unpickled.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from scipy.io import loadmat

from featscope.core.errors import BadInput

Bytes = NDArray[np.uint8]
CIFAR_SIDE, CIFAR_CHANNELS = 32, 3
_CIFAR_PIXELS = CIFAR_SIDE * CIFAR_SIDE * CIFAR_CHANNELS


def damaged_file(name: str, reason: str) -> BadInput:
    """The error for a file that cannot be read as what its name says."""
    return BadInput(
        "not a readable data file",
        f"{name} ({reason})",
        "fetch it again, or name a folder with the official files",
    )


def refuse_page(data: bytes, name: str) -> None:
    """Refuse an HTML page, which servers and portals send instead of a missing file."""
    head = data[:512].lstrip().lower()
    if head.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise damaged_file(name, "it is an HTML page")


def gunzip(data: bytes, name: str) -> bytes:
    """Decompress gzip data; data without gzip's mark is returned as it is."""
    refuse_page(data, name)
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise damaged_file(name, f"broken gzip: {error}") from None


def read_idx(data: bytes, name: str) -> Bytes:
    """IDX: two zero bytes, the type 8 (unsigned byte), the number of axes, the sizes as big-endian 32-bit
    integers, the values."""
    data = gunzip(data, name)
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise damaged_file(name, "no IDX header of unsigned bytes")
    axes = data[3]
    start = 4 + 4 * axes
    if axes < 1 or len(data) < start:
        raise damaged_file(name, "IDX header cut off")
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", axes, 4))
    expected = start + int(np.prod(shape, dtype=object))
    if len(data) != expected:
        raise damaged_file(name, f"{len(data)} bytes where the header says {expected}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_idx_images(data: bytes, name: str) -> Bytes:
    """IDX images (N, H, W) as (N, H, W, 1)."""
    images = read_idx(data, name)
    if images.ndim != 3:
        raise damaged_file(name, f"{images.ndim} axes where images have 3")
    return images[..., None]


def read_idx_labels(data: bytes, name: str) -> Bytes:
    """IDX labels (N)."""
    labels = read_idx(data, name)
    if labels.ndim != 1:
        raise damaged_file(name, f"{labels.ndim} axes where labels have 1")
    return labels


def read_cifar(data: bytes, name: str, label_bytes: int = 1) -> tuple[Bytes, Bytes]:
    """CIFAR binary: records of the label bytes and 3072 pixels, channel after channel.

    CIFAR-10 has one label byte. CIFAR-100 has two, superclass and class; the class, the last, is returned.
    """
    refuse_page(data, name)
    record = label_bytes + _CIFAR_PIXELS
    if not data or len(data) % record:
        raise damaged_file(name, f"{len(data)} bytes is no whole number of {record}-byte records")
    records = np.frombuffer(data, np.uint8).reshape(-1, record)
    planes = records[:, label_bytes:].reshape(-1, CIFAR_CHANNELS, CIFAR_SIDE, CIFAR_SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, label_bytes - 1].copy()


def read_sheet(data: bytes, name: str) -> Bytes:
    """A lossless PNG whose rows are CIFAR images in H, W, C order."""
    refuse_page(data, name)
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as sheet:
            pixels = np.asarray(sheet)
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise damaged_file(name, f"no PNG image: {str(error)[:80]}") from None
    if (
        pixels.dtype != np.uint8
        or pixels.ndim != 3
        or pixels.shape[1:] != (CIFAR_SIDE * CIFAR_SIDE, CIFAR_CHANNELS)
    ):
        raise damaged_file(name, f"pixels of shape {pixels.shape}")
    return pixels.reshape(-1, CIFAR_SIDE, CIFAR_SIDE, CIFAR_CHANNELS)


def read_label_list(data: bytes, name: str) -> Bytes:
    """Labels as a JSON list of small integers."""
    refuse_page(data, name)
    try:
        labels = json.loads(data)
    except ValueError as error:
        raise damaged_file(name, f"no JSON: {error}") from None
    if not isinstance(labels, list) or not all(isinstance(v, int) and 0 <= v <= 255 for v in labels):
        raise damaged_file(name, "no list of labels")
    return np.asarray(labels, dtype=np.uint8)


def read_svhn(data: bytes, name: str) -> tuple[Bytes, Bytes]:
    """SVHN's cropped digits (MATLAB 5): X (32, 32, 3, N) and y (N, 1), where label 10 means the digit 0."""
    refuse_page(data, name)
    try:
        content: dict[str, Any] = loadmat(io.BytesIO(data), variable_names=["X", "y"])
    except Exception as error:
        # SciPy raises errors of many kinds on broken files; each means the same here.
        raise damaged_file(name, f"no MATLAB 5 file: {str(error)[:80]}") from None
    images, labels = content.get("X"), content.get("y")
    if (
        not isinstance(images, np.ndarray)
        or images.ndim != 4
        or images.dtype != np.uint8
        or images.shape[2] != 3
    ):
        raise damaged_file(name, "no variable X of bytes with shape (H, W, 3, N)")
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "uif" or labels.size != images.shape[3]:
        raise damaged_file(name, "no variable y with one label for each image")
    digits = labels.reshape(-1).astype(np.int64)
    if digits.size and (digits.min() < 0 or digits.max() > 10):
        raise damaged_file(name, f"labels from {digits.min()} to {digits.max()}")
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), (digits % 10).astype(np.uint8)
