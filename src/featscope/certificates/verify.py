"""Verify certificates of any kind: what each proves, and whether that is what was said of it.

A certificate is refused if its arrays are not what they should be, if a perturbation leaves its ball,
or if it
proves less than its run states.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from featscope.certificates.at import ROUNDING, classified_right, fooled, matching_bound
from featscope.certificates.certificate import Certificate, Recheck, load_certificate
from featscope.certificates.cgro import ball_failures, robust_memory
from featscope.certificates.ep import pair_separation
from featscope.certificates.fa import verify as verify_radii
from featscope.certificates.probe import (
    Function,
    check_perturbations,
    check_radii,
    is_probe,
    probe_certificates,
)
from featscope.certificates.stored import TENSORS, certificates
from featscope.core.errors import BadInput, unknown
from featscope.core.rules import RECOMPUTED, SETTLED

Check = Callable[[Certificate], Recheck]


def _stated_error(certificate: Certificate, proven: int, points: int) -> str | None:
    """Why an error count is refused: the run says that more points are lost."""
    stated = certificate.stated.get("error")
    if stated is None or proven >= round(float(stated) * points):
        return None
    return f"proves {proven} of {points} lost, its run states {round(float(stated) * points)}"


def _outside(size: float, radius: float, rounding: float) -> str | None:
    return (
        None
        if size <= radius * (1 + rounding)
        else f"a perturbation of {size:.6g} leaves the ball of {radius:g}"
    )


def _patch(c: Certificate) -> Recheck:
    w, x, delta, y = c.numbers("w"), c.numbers("x"), c.numbers("delta"), c.array("y")
    eps, q, rho = c.constant("eps"), int(c.constant("q")), c.constant("rho")
    hits = fooled(w, x, y, delta, eps, q, rho)
    wrong = sum(not classified_right(w, point, label, q, rho) for point, label in zip(x, y, strict=True))
    refused = _outside(float(np.abs(delta).max(initial=0.0)), eps, ROUNDING)
    refused = refused or _stated_error(c, hits + wrong, len(y))
    return Recheck(f"{hits} of {len(y)} points fooled within ‖Δ‖∞ ≤ {eps:g}, {wrong} wrong without", refused)


def _matching(c: Certificate) -> Recheck:
    eps, x = c.constant("eps"), c.numbers("x")
    bound = matching_bound(x, c.array("y"), c.array("left"), c.array("right"), eps)
    if bound is None:
        return Recheck("nothing", "a pair has one label, is too far apart, or uses a point twice")
    stated = c.stated.get("bound")
    less = stated is not None and bound > float(stated) * (1 + RECOMPUTED)
    refused = f"proves {bound:.6g}, its run states {stated:.6g}" if less else None
    return Recheck(
        f"no classifier has more than {bound:.4g} robust accuracy on the sample, ε = {eps:g}", refused
    )


def _radii(c: Certificate) -> Recheck:
    names = ("w", "b", "a", "x", "y", "delta", "certificate")
    proof = verify_radii(*(c.numbers(name) for name in names))
    settled = proof.settled(SETTLED)
    told = f"{int(settled.sum())} of {len(settled)} radii settled, the least {float(proof.lower.min()):.6g}"
    if not settled.all():
        return Recheck(told, f"{int((~settled).sum())} radii are not settled")
    stated = np.asarray(c.stated.get("radii", []), dtype=float)
    if stated.size == 0:
        return Recheck(told)
    if stated.shape != proof.lower.shape:
        return Recheck(told, f"{stated.size} radii are stated, {len(settled)} certified")
    # JSON has no word for ∞: such a radius is stated as null.
    never = ~np.isfinite(proof.lower) & np.isnan(stated)
    inside = (stated >= proof.lower * (1 - SETTLED)) & (stated <= proof.upper * (1 + SETTLED))
    return Recheck(told, None if (inside | never).all() else "a stated radius is not the certified one")


def _ball(c: Certificate) -> Recheck:
    found = ball_failures(
        c.numbers("w"), c.numbers("x"), c.numbers("y"), c.numbers("delta"), c.constant("radius")
    )
    size, points = found["largest_norm"], found["points"]
    refused = _outside(float("inf") if size is None else size, found["radius"], 1e-9)
    refused = refused or _stated_error(c, found["failures"] + found["wrong_clean"], points)
    told = f"{found['failures']} of {points} training points fail within ‖Δ‖₂ ≤ {found['radius']:.4g}"
    return Recheck(told, refused)


def _memory(c: Certificate) -> Recheck:
    found = robust_memory(c.numbers("x"), c.numbers("y"), c.constant("delta"), c.constant("separation"))
    least = (
        "no opposite pair"
        if found["least"] is None
        else f"opposite points at least {found['least']:.6g} apart"
    )
    if not found["wide_enough"]:
        return Recheck(least, "the separation is not above 2δ")
    return Recheck(least, None if found["separated"] else "opposite points are too close for the separation")


def _pair(c: Certificate) -> Recheck:
    found = pair_separation(c.array("left"), c.array("right"), c.array("labels"))
    if found is None:
        return Recheck("nothing", "not two images of different labels")
    stated = c.stated.get("separation")
    differs = stated is not None and not abs(found - float(stated)) < RECOMPUTED
    refused = f"the pair is {found:.6g} apart, its run states {stated:.6g}" if differs else None
    return Recheck(f"two images of different labels {found:.6g} apart", refused)


CHECKS: dict[str, Check] = {
    "patch-perturbations": _patch,
    "matching": _matching,
    "relu-radii": _radii,
    "cubic-ball": _ball,
    "memory": _memory,
    "pair": _pair,
    "probe-perturbations": check_perturbations,
    "probe-radii": check_radii,
}


def verified(certificate: Certificate) -> Recheck:
    """What a certificate proves; arrays that are none are refused like a wrong one."""
    if certificate.kind not in CHECKS:
        raise unknown("kind of certificate", certificate.kind, CHECKS)
    try:
        return CHECKS[certificate.kind](certificate)
    except BadInput as error:
        return Recheck("nothing", str(error))


def found(path: Path, network: Function | None = None) -> Iterator[tuple[Path, Certificate]]:
    """The certificates of a file of its own, of a run, of all runs below a folder, or of a probe, each with
    its place; ``network`` gives the outputs of a probe's network where its folder cannot."""
    if path.is_file() and path.name != TENSORS:
        yield path, load_certificate(path)
        return
    root = path.parent if path.is_file() else path
    if not root.is_dir():
        raise BadInput("no such file or folder", str(path), "give a run folder, or a certificate file")
    if is_probe(root):
        for certificate in probe_certificates(root, network):
            yield root, certificate
        return
    for folder in _runs(root):
        for certificate in certificates(folder):
            yield folder, certificate


def _runs(root: Path) -> list[Path]:
    """The finished runs at or below a folder."""
    places = []
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.endswith((".partial", ".old"))]
        places += [Path(folder)] if {"spec.json", TENSORS} <= set(files) else []
    return sorted(places)
