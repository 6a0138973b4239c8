"""One thread for each worker, and hypothesis without a clock."""

import image_files as files
import pytest
import torch
from hypothesis import settings

from featscope.images import datasets
from featscope.images.catalogue import CIFAR10, DATASETS, MNIST

torch.set_num_threads(1)
settings.register_profile("featscope", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("featscope")


def _install(data, tmp_path, monkeypatch):
    """A data set in the place of a real one, of images with a visible class: a bright row for each label."""
    described, arrays = files.small(data)
    for split in ("train", "test"):
        pixels = (arrays[f"{split}-images"] // 8).astype("uint8")
        for i, label in enumerate(arrays[f"{split}-labels"]):
            pixels[i, 2 * int(label) + 4] = 250
        arrays[f"{split}-images"] = pixels
    monkeypatch.setenv("FEATSCOPE_DATA", str(tmp_path / "data"))
    datasets.install(described, arrays, tmp_path / "data", "test", checked=False)
    monkeypatch.setitem(DATASETS, data.name, described)


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    """A small data set in the place of MNIST."""
    _install(MNIST, tmp_path, monkeypatch)


@pytest.fixture
def small_cifar(tmp_path, monkeypatch):
    """A small data set in the place of CIFAR-10."""
    _install(CIFAR10, tmp_path, monkeypatch)
