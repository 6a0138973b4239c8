"""One writer at a time, on any system: locks are files in a hidden folder, held through `filelock`, and let
go when a process dies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from featscope.core.errors import FeatscopeError


class Busy(FeatscopeError):
    """Another process is writing here."""


#: the folder beside what is locked; its files stay, so that nobody can hold a lock on a file that is no
#: longer there
FOLDER = ".locks"


@contextlib.contextmanager
def locked(place: Path, wait: bool = True, waiting: Callable[[bool], None] | None = None) -> Iterator[None]:
    """Be the only process that writes at ``place``; ``wait`` for another (``waiting`` is told at the
    beginning and at the end), or say that there is one."""
    home = place.parent / FOLDER
    home.mkdir(parents=True, exist_ok=True)
    lock = FileLock(home / f"{place.name}.lock")
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
