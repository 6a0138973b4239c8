"""Runs of image experiments on small data: made with all that they need, and folders that hold what an
experiment needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from featscope.core.progress import Silent
from featscope.core.store import Folder, Store
from featscope.experiments.run import Run
from featscope.experiments.runner import run
from featscope.experiments.spec import Experiment, Request, Spec


def finished(plan: Experiment[Any], spec: Spec, store: Store) -> Run:
    """The run of these settings, made or found."""
    return run(Request(plan, spec), store)


def folder_with(needed: Mapping[str, Request], store: Store) -> Folder:
    """A folder of some experiment that said it needs these runs."""
    made = {label: run(request, store) for label, request in needed.items()}
    return Folder(store.place({"experiment": "other"}), Silent(), {}, made)
