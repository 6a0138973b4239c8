"""What a probe's folder proves: every saved perturbation, and every certified radius, checked again.

The network is read as arrays from the folder; one that is not made of plain layers must be given as a
function.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from featscope.certificates.arrays import require_fitting, require_labels, require_numbers
from featscope.certificates.balls import least_margin
from featscope.certificates.certificate import Certificate, Recheck, read_arrays
from featscope.certificates.layers import Array, Plain
from featscope.certificates.lipschitz import safe_radii
from featscope.core.errors import BadInput

#: relative room for the rounding of a network in single precision, whose layers are checked in double
ROUNDING = 1e-5
#: relative room for the rounding of a radius
ROOM = 1e-6
DOCUMENT, PARTS, NETWORK, CERTIFIED = "probe.json", "parts", "network", "certified"
Function = Callable[[Array], Array]


def is_probe(path: Path) -> bool:
    """Whether a folder is a probe's."""
    return (path / DOCUMENT).is_file() and (path / PARTS).is_dir()


def _step(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays, header = read_arrays(path)
    try:
        return arrays, dict(json.loads(header["rest"]))
    except (KeyError, ValueError, TypeError):
        raise BadInput("not what a probe writes", str(path), "make the probe again") from None


def _robustness(path: Path) -> dict[str, Any]:
    """What the probe says of robustness."""
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))["robustness"]
        return {"certificate": {"proved": stated["certificate"]["proved"]}}
    except (KeyError, ValueError, TypeError, OSError):
        raise BadInput("not what a probe writes", str(path), "make the probe again") from None


def _with_constants(facts: dict[str, Any], path: Path) -> dict[str, Any]:
    """The facts of a step, if norm and bounds are among them."""
    bounds = facts.get("bounds")
    pair = isinstance(bounds, list) and len(bounds) == 2 and all(isinstance(b, int | float) for b in bounds)
    if facts.get("norm") not in ("Linf", "L2") or "bounds" not in facts or not (bounds is None or pair):
        raise BadInput("norm and bounds of a probe", str(path), "make the probe again")
    return facts


def probe_certificates(folder: Path, function: Function | None = None) -> Iterator[Certificate]:
    """What the folder holds, each with the network in its constants."""
    stated = _robustness(folder / DOCUMENT)
    arrays, rest = _step(folder / PARTS / f"{NETWORK}.safetensors")
    net = None if rest.get("layers") is None else Plain(rest["layers"], arrays)
    outputs = function if function is not None else (None if net is None else net.outputs)
    if outputs is None:
        reason = f"{folder}: {rest.get('reason', 'no layers')}"
        raise BadInput("the network is not written as arrays", reason, "give it: --network file.py:function")
    for path in sorted((folder / "perturbations").glob("*.safetensors")):
        found, facts = _step(path)
        yield Certificate(
            "probe-perturbations", path.stem, found, {**_with_constants(facts, path), "outputs": outputs}
        )
    path = folder / PARTS / f"{CERTIFIED}.safetensors"
    if path.is_file() and net is not None:
        found, facts = _step(path)
        yield Certificate(
            "probe-radii",
            CERTIFIED,
            found,
            {**_with_constants(facts, path), "net": net},
            {"proved": stated["certificate"]["proved"]},
        )


def check_perturbations(c: Certificate) -> Recheck:
    """Right without, wrong with, inside the ball of the stated size and inside the bounds."""
    x, delta, y, size = c.numbers("x"), c.numbers("delta"), c.array("y"), c.numbers("size")
    require_fitting(x.shape == delta.shape and y.shape == size.shape == x.shape[:1], x=x, y=y, delta=delta)
    require_numbers(x, delta, size)
    norm, bounds, outputs = c.constants["norm"], c.constants["bounds"], c.constants["outputs"]
    before, after = outputs(x), outputs(x + delta)
    known = np.issubdtype(y.dtype, np.integer) and bool(((y >= 0) & (y < before.shape[1])).all())
    require_labels(known, y, "the network's classes")
    flat = delta.reshape(len(delta), -1)
    sizes = np.abs(flat).max(1) if norm == "Linf" else np.sqrt((flat**2).sum(1))
    room = ROUNDING * np.abs(before).max(1)
    told = (
        f"{len(y)} perturbations of {norm} norm {sizes.min(initial=np.inf):.4g} to {sizes.max(initial=0):.4g}"
    )
    if (sizes > size * (1 + 1e-5) + 1e-7).any():
        return Recheck(told, "a perturbation is larger than it is said to be")
    if bounds is not None and ((x + delta < bounds[0] - 1e-6) | (x + delta > bounds[1] + 1e-6)).any():
        return Recheck(told, "a perturbed input leaves the bounds")
    if (_margin(before, y) < -room).any():
        return Recheck(
            told, f"{int((_margin(before, y) < -room).sum())} examples are wrong without a perturbation"
        )
    left = _margin(after, y) > room
    return Recheck(
        f"{told} fool the network", f"{int(left.sum())} do not fool the network" if left.any() else None
    )


def _margin(outputs: Array, y: np.ndarray) -> Array:
    own = np.take_along_axis(outputs, y[:, None], 1)[:, 0]
    rivals = outputs.copy()
    np.put_along_axis(rivals, y[:, None], -np.inf, 1)
    gap: Array = own - rivals.max(1)
    return gap


def check_radii(c: Certificate) -> Recheck:
    """Every stated radius is proved again by bounds over its ball."""
    x, y, radius = c.numbers("x"), c.array("y"), c.numbers("radius")
    require_fitting(len(x) == len(y) == len(radius), x=x, y=y, radius=radius)
    require_numbers(x, radius)
    net, norm, bounds = c.constants["net"], c.constants["norm"], c.constants["bounds"]
    hints = c.constants.get("hints", [])
    if c.constants.get("by") == "Lipschitz":
        require_labels(bool(((y >= 0) & (y < net.outputs(x[:1]).shape[1])).all()), y, "the network's classes")
        proved = list(radius * (1 - ROOM) <= safe_radii(net, x, y, norm))
    else:
        proved = [
            least_margin(net, x[i : i + 1], int(y[i]), float(radius[i]) * (1 - ROOM), norm, bounds, hints) > 0
            for i in range(len(y))
        ]
    told = f"{sum(proved)} of {len(y)} radii ({norm}) proved, the largest {radius.max(initial=0):.4g}"
    if not all(proved):
        return Recheck(told, f"{len(y) - sum(proved)} radii are not proved")
    stated = c.stated.get("proved")
    return Recheck(told, None if stated in (None, len(y)) else f"the probe states {stated} radii")
