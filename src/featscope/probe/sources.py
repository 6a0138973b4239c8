"""Where a network and data come from on the command line: functions in files or packages, weights, arrays,
folders of images, and the data sets that `featscope data` knows. Nothing is unpickled.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from featscope.core.errors import BadInput, require, unknown
from featscope.images import datasets
from featscope.images.catalogue import DATASETS
from featscope.images.groupings import grouping
from featscope.images.weights import read_weights
from featscope.nets.classifier import Normalise

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif")
#: what a function may say of its network besides, in a mapping
SAID = ("bounds", "mean", "std", "layer", "names")


@dataclass(frozen=True)
class Loaded:
    """A network, and what its function says of it."""

    network: nn.Module
    said: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Examples:
    """Test examples, training examples if there are any, the names of the classes, and the data set's name if
    `featscope data` knows it."""

    x: Any
    y: Any
    train: tuple[Any, Any] | None = None
    names: tuple[str, ...] = ()
    name: str | None = None


def called(text: str) -> Any:
    """What the function named by ``file.py:function`` or ``package.module:function`` returns."""
    place, colon, name = text.rpartition(":")
    rule, remedy = (
        "a function is named as file.py:function or package.module:function",
        "for example net.py:load",
    )
    require(bool(colon and place and name), rule, text, remedy)
    module = _from_file(Path(place)) if place.endswith(".py") else _from_package(place)
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown(f"function of {place}", name, known)
    try:
        return function()
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0][:160]
        raise BadInput(
            f"{text} fails", f"{type(error).__name__}: {first}", "call it once by hand, without arguments"
        ) from error


def _from_file(path: Path) -> Any:
    require(path.is_file(), "no such file", str(path), "give the path of a Python file")
    spec = importlib.util.spec_from_file_location(f"probed_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0][:160]
        raise BadInput(
            f"{path} cannot be imported", f"{type(error).__name__}: {first}", "run it once by hand"
        ) from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _from_package(name: str) -> Any:
    require(not name.startswith("."), "a module is named from its package on", name, "write package.module")
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadInput(
            "no such module", f"{name} ({error})", "install it, or give a path that ends in .py"
        ) from error


def loaded_network(text: str, weights: Path | None = None) -> Loaded:
    """The network of a function, with weights from a file and its normalisation inside."""
    found = called(text)
    said: Mapping[str, Any] = {}
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping):
        found, said = found
    for key in said:
        if key not in SAID:
            raise unknown("entry of the network's mapping", str(key), SAID)
    rule = "the function must return a torch.nn.Module, or one and a mapping"
    require(isinstance(found, nn.Module), rule, type(found).__name__, "return the network itself")
    made: nn.Module = found
    if weights is not None:
        _put(made, weights)
    if "mean" in said or "std" in said:
        both = "mean" in said and "std" in said
        require(both, "normalisation needs mean and std", ", ".join(said), "give both")
        made = nn.Sequential(Normalise(said["mean"], said["std"]), made).train(made.training)
    return Loaded(made, {key: value for key, value in said.items() if key not in ("mean", "std")})


def _put(made: nn.Module, path: Path) -> None:
    require(path.is_file(), "no such file", str(path), "give a .safetensors or .pth file")
    tensors = read_weights(path.read_bytes(), path.name)
    try:
        made.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:160]
        raise BadInput("the weights are not this network's", reason, "check file and network") from None


def examples(text: str, split: str = "test") -> Examples:
    """Data by name, file, folder or function."""
    if text in DATASETS:
        return _known(text)
    path = Path(text)
    if ":" in text and not path.exists():
        return _given(called(text), text)
    if path.is_dir():
        return _folder(path)
    if path.suffix in (".npz", ".npy"):
        return _given(_arrays(path), text)
    if path.suffix == ".safetensors":
        return _given(_tensors(path), text)
    raise unknown("data", text, [*DATASETS, "file.npz", "file.safetensors", "folder", "file.py:function"])


def _known(name: str) -> Examples:
    test, train = datasets.load(name, "test"), datasets.load(name, "train")
    x, y = test.batch()
    most = train.subset(min(len(train), 10_000), 0)
    train_x, train_y = train.batch(most)
    return Examples(x, y, (train_x, train_y), test.classes, name)


def _arrays(path: Path) -> Any:
    """Arrays by name; a pair of .npy files is NAME-x.npy (or images) and NAME-y.npy (or labels)."""
    require(path.is_file(), "no such file", str(path), "check the path")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        return {
            "x": np.load(path, allow_pickle=False),
            "y": np.load(_labels_beside(path), allow_pickle=False),
        }
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise BadInput(
            "not arrays without pickles", f"{path} ({reason})", "save them with np.savez(path, x=x, y=y)"
        ) from None


def _labels_beside(path: Path) -> Path:
    for images, labels in (("images", "labels"), ("x", "y"), ("X", "y"), ("data", "labels")):
        beside = path.with_name(path.name.replace(images, labels))
        if images in path.stem and beside != path and beside.is_file():
            return beside
    raise BadInput("labels lie beside the images", str(path), "name them test-x.npy and test-y.npy")


def _tensors(path: Path) -> Any:
    try:
        return load_file(str(path))
    except (SafetensorError, OSError) as error:
        raise BadInput(
            "not a file of tensors", f"{path} ({str(error)[:80]})", "save x and y with safetensors"
        ) from None


#: names of examples and labels, most usual first
X_NAMES, Y_NAMES = ("x", "X", "images", "data", "inputs"), ("y", "Y", "labels", "targets", "label")


def _given(found: Any, text: str) -> Examples:
    """Two arrays, four, or a mapping of arrays by name."""
    if isinstance(found, Mapping):
        return _named(found, text)
    if isinstance(found, tuple | list) and len(found) in (2, 4):
        pairs = [found[i : i + 2] for i in range(0, len(found), 2)]
        if len(found) == 2 and all(isinstance(part, tuple | list) and len(part) == 2 for part in found):
            pairs = [*found]
        train = (pairs[0][0], pairs[0][1]) if len(pairs) == 2 else None
        return Examples(pairs[-1][0], pairs[-1][1], train)
    raise BadInput(
        "data are (x, y), (train, test) or a mapping", f"{text} gives {type(found).__name__}", "return (x, y)"
    )


def _named(found: Mapping[str, Any], text: str) -> Examples:
    def pick(names: tuple[str, ...], prefix: str) -> Any:
        kinds = [f"{prefix}{dash}{name}" for name in names for dash in ("", "_", "-")] if prefix else names
        kinds = [*kinds, *(f"{name}_{prefix}" for name in names if prefix)]
        return next((found[name] for name in kinds if name in found), None)

    x, y = (pick(names, "test") for names in (X_NAMES, Y_NAMES))
    if x is None or y is None:
        x, y = (pick(names, "") for names in (X_NAMES, Y_NAMES))
    if x is None or y is None:
        raise BadInput(
            "arrays need names",
            f"{text} has {', '.join(map(str, found))}",
            "name them x and y, and train_x and train_y",
        )
    train = (pick(X_NAMES, "train"), pick(Y_NAMES, "train"))
    names = tuple(map(str, found["names"])) if "names" in found else ()
    return Examples(x, y, None if train[0] is None or train[1] is None else train, names)


def _folder(path: Path) -> Examples:
    """Images by class: one folder each; or folders `train` and `test` of such folders."""
    if (path / "test").is_dir():
        x, y, names = _by_class(path / "test")
        if not (path / "train").is_dir():
            return Examples(x, y, None, names)
        train_x, train_y, others = _by_class(path / "train")
        require(
            others == names,
            "train and test must have the same classes",
            f"{others} and {names}",
            "check them",
        )
        return Examples(x, y, (train_x, train_y), names)
    x, y, names = _by_class(path)
    return Examples(x, y, None, names)


def _by_class(path: Path) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    names = tuple(sorted(sub.name for sub in path.iterdir() if sub.is_dir()))
    require(
        len(names) >= 2,
        "a folder of images has one folder for each class",
        str(path),
        "make folders of classes",
    )
    pictures: list[np.ndarray] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        for file in sorted((path / name).iterdir()):
            if file.suffix.lower() in PICTURES:
                pictures.append(_picture(file))
                labels.append(label)
    require(bool(pictures), "no images there", str(path), f"use {', '.join(PICTURES)}")
    shapes = {picture.shape for picture in pictures}
    require(
        len(shapes) == 1,
        "images must have one size",
        str(sorted(shapes)[:3]),
        "resize them as the network wants",
    )
    x = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()
    return x, torch.tensor(labels), names


def _picture(path: Path) -> np.ndarray:
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError) as error:
        raise BadInput("not an image", f"{path} ({str(error)[:60]})", "remove it") from None
    return pixels[..., None] if pixels.ndim == 2 else pixels


def groups(text: str | None, classes: Callable[[], int]) -> Tensor | None:
    """Groups by name (first-half, parity), as text (0,1,8|2,3), or from a .npy file."""
    if text is None:
        return None
    if text.endswith(".npy"):
        return torch.from_numpy(_plain(Path(text)).astype(np.int64))
    named = {"first-half": "halves"}.get(text, text)
    count = classes()
    return grouping(named, count)(torch.arange(count))


def _plain(path: Path) -> np.ndarray:
    try:
        found: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BadInput(
            "not a file of groups", f"{path} ({str(error)[:60]})", "save whole numbers with np.save"
        ) from None
    return found


def radius(text: str) -> float:
    """A radius as a number or a fraction: 0.3, 8/255."""
    above, _, below = text.replace(" ", "").partition("/")
    try:
        found = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        found = math.nan
    # 1/ and /3 are halves of fractions; 1e400 is no float
    whole = bool(above) and ("/" not in text or bool(below)) and math.isfinite(found)
    require(whole, "a radius is a number or a fraction", text[:60], "write 0.3 or 8/255")
    return found
