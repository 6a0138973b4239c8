"""One writer at a time, on any system: locks are files, held through `filelock`, and let go when a process
dies. Their files stay, so that nobody can hold a lock on a file that is no longer there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from featscope.core.errors import FeatscopeError


class Busy(FeatscopeError):
    """Another process is writing here."""


#: the hidden folder with the locks of the runs and data sets beside it
FOLDER = ".locks"


@contextlib.contextmanager
def locked(place: Path, wait: bool = True, waiting: Callable[[bool], None] | None = None) -> Iterator[None]:
    """Be the only process that writes at ``place``, a folder of a store; ``wait`` for another (``waiting`` is
    told at the beginning and at the end), or say that there is one."""
    with _held(place.parent / FOLDER / f"{place.name}.lock", place, wait, waiting):
        yield


@contextlib.contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Be the only process of this machine that writes a single file, wherever the user wants it: the lock
    lies with the system's temporary files, and nothing beside the user's."""
    # Where there are no user numbers, temporary files are each user's own.
    home = Path(tempfile.gettempdir()) / f"featscope-locks-{getattr(os, 'getuid', int)()}"
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    with _held(home / f"{name}.lock", path):
        yield


@contextlib.contextmanager
def _held(
    file: Path, place: Path, wait: bool = True, waiting: Callable[[bool], None] | None = None
) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise Busy(
                f"another process is writing this: {place}; wait for it or use another folder"
            ) from None
        tell = waiting or (lambda _: None)
        tell(True)
        lock.acquire()
        tell(False)
    try:
        yield
    finally:
        lock.release()
