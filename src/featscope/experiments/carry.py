"""Seeds that a finished run has trained already: a run of more seeds takes their parts over.

A part may be taken over if its seed and the settings decide it, whatever other seeds there are; an experiment
names those parts (`Experiment.apart`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from featscope.core.files import Damaged, canonical
from featscope.core.store import SEED_LABEL, Folder, Json, Store
from featscope.core.stored import StoredRun, find_stored, labelled
from featscope.experiments.spec import Request


def _without_seeds(identity: Json) -> str:
    spec = {key: value for key, value in identity["spec"].items() if key != "seeds"}
    return canonical({**identity, "spec": spec})


def _donors(request: Request, store: Store) -> Iterator[StoredRun]:
    """Finished runs of the same settings with other seeds."""
    home = store.place(request.identity).parent
    if not request.experiment.apart or not home.is_dir():
        return
    wanted = _without_seeds(request.identity)
    for run in find_stored(home):
        if run.damage() is None and _without_seeds(run.identity) == wanted:
            yield run


def take_over(request: Request, store: Store, folder: Folder) -> None:
    """Put the parts of seeds that are there already into a folder that lacks them."""
    for run in _donors(request, store):
        taken = []
        for entry in run.manifest.get("parts", []):
            seed = entry["labels"].get(SEED_LABEL)
            if entry["name"] in request.experiment.apart and seed in request.spec.seeds:
                taken += [seed] if _take(run, entry, folder) else []
        if taken:
            folder.notes.setdefault("seeds taken over", {})[run.path.name] = sorted(set(taken))


def _take(run: StoredRun, entry: Json, folder: Folder) -> bool:
    """Copy one part; not one that is there, nor one whose tensors were not passed on."""
    name, labels = entry["name"], entry["labels"]
    part, key = folder.part(name, **labels), labelled(name, labels)
    try:
        tensors = {tensor: run.tensors.get(f"{key}/{tensor}") for tensor in entry["tensors"]}
        if part.load() is not None or any(t is None for t in tensors.values()):
            return False
        rows = _rows(run, name, labels)
    except Damaged:
        return False
    part.save(entry["step"], True, rows, {k: t for k, t in tensors.items() if t is not None}, entry["notes"])
    return True


def _rows(run: StoredRun, name: str, labels: dict[str, Any]) -> list[dict[str, Any]]:
    found = run.part(name, **labels)
    kept = [column for column in found.columns if column != "part" and column not in labels]
    return found.select(kept).to_dicts()
