"""`featscope verify`: certificates, checked again by code that shares nothing with the search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from featscope.cli.console import JsonOption, out, print_json, say
from featscope.core.errors import BadInput


def verify_(
    path: Annotated[
        Path, typer.Argument(help="a run folder, one that holds runs, a probe, or a certificate file")
    ],
    export: Annotated[
        Path | None,
        typer.Option("--export", help="also write each certificate into this folder, one file each"),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="a probe's network, file.py:function, where its folder does not hold it"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Re-check every certificate; exit code 2 if one is refused."""
    from rich.table import Table
    from rich.text import Text

    from featscope.certificates.certificate import save
    from featscope.certificates.verify import found, verified

    certificates = list(found(path, None if network is None else _outputs(network)))
    if not certificates:
        remedy = (
            "runs of patch-fig3, patch-minima, clusters-fig3, clusters-built, signal-stages, "
            "built-cgro have some"
        )
        raise BadInput("no certificate there", str(path), remedy)
    outcomes = [(place, c, verified(c)) for place, c in certificates]
    if export is not None:
        if any(c.kind.startswith("probe") for _, c, _ in outcomes):
            raise BadInput("a probe is verified where it lies", str(path), "leave out --export")
        export.mkdir(parents=True, exist_ok=True)
        for place, c, _ in outcomes:
            save(c, export / f"{place.stem}-{_safe(c.place)}.safetensors")
    if as_json:
        print_json([{"path": str(p), "part": c.place, "kind": c.kind, **vars(o)} for p, c, o in outcomes])
    else:
        table = Table("certificate", "proves", box=None)
        for place, c, outcome in outcomes:
            told = (
                Text(outcome.proves)
                if outcome.refused is None
                else Text(f"refused: {outcome.refused}", "red")
            )
            table.add_row(Text(f"{place.name} {c.place} ({c.kind})"), told)
        out.print(table)
    refused = [f"{place}: {c.place}: {o.refused}" for place, c, o in outcomes if o.refused is not None]
    if refused:
        rest = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        raise BadInput("a certificate is refused", refused[0] + rest, "do not trust it; make the run again")
    count = len(outcomes)
    say("1 certificate, verified" if count == 1 else f"{count} certificates, all verified")


def _outputs(name: str) -> Callable[[Any], Any]:
    """The logits of a probe's network as arrays."""
    import torch

    from featscope.probe.admission import lent, with_logits
    from featscope.probe.sources import loaded_network

    made = loaded_network(name).network

    def outputs(x: Any) -> Any:
        points = torch.from_numpy(x).float()
        with torch.no_grad(), lent(made) as network:
            return with_logits(network, points)(points).double().numpy()

    return outputs


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name).strip("-")
