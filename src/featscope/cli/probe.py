"""`featscope probe`: how robust your own network is, whether to trust the number, and which theory explains
it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from featscope.cli.console import JsonOption, ShownProgress, announce, print_json, say, tell
from featscope.core.errors import BadInput

NetworkArgument = Annotated[str | None, typer.Argument(help="file.py:function or package.module:function")]
DataOption = Annotated[
    str | None,
    typer.Option(
        help="a data set's name, .npz, .npy, .safetensors, a folder of images by class, file.py:function"
    ),
]
EpsOption = Annotated[str | None, typer.Option(help="the radius, for example 8/255")]
WeightsOption = Annotated[
    Path | None, typer.Option(help="weights to load: .safetensors, or .pth without code")
]
ReferenceOption = Annotated[
    str | None, typer.Option(help="a network whose features are trusted, file.py:function")
]
GroupsOption = Annotated[
    str | None, typer.Option(help="coarser labels: first-half, parity, 0,1,8|2,3, or a .npy file")
]
BoundsOption = Annotated[str | None, typer.Option(help="least and largest input, for example 0,1; or none")]
CompareOption = Annotated[tuple[Path, Path] | None, typer.Option(help="two finished probes, side by side")]


def probe_(
    network: NetworkArgument = None,
    data: DataOption = None,
    eps: EpsOption = None,
    norm: Annotated[str, typer.Option(help="Linf or L2")] = "Linf",
    weights: WeightsOption = None,
    reference: ReferenceOption = None,
    groups: GroupsOption = None,
    bounds: BoundsOption = None,
    budget: Annotated[str, typer.Option(help="the time it may take: 10m, 90s, 1h")] = "10m",
    place: Annotated[Path, typer.Option("--out", "-o", help="the folder of the probe")] = Path("probe"),
    seed: Annotated[int, typer.Option(help="seed of every random choice")] = 0,
    compare: CompareOption = None,
    as_json: JsonOption = False,
) -> None:
    """Probe a network: robust accuracy with certificates and warnings, and four mechanisms side by side."""
    if compare is not None:
        _compare(*compare, as_json)
        return
    wanted = {"a network": network, "--data": data, "--eps": eps}
    missing = [name for name, value in wanted.items() if value is None]
    if missing:
        raise BadInput(
            "a probe needs a network, data and a radius",
            f"no {', no '.join(missing)}",
            "for example: featscope probe net.py:load --data mnist --eps 0.3",
        )
    announce("loading …")
    from featscope.probe import sources
    from featscope.probe.run import probe

    loaded = sources.loaded_network(str(network), weights)
    examples = sources.examples(str(data))
    options: dict[str, Any] = {
        "names": examples.names,
        "data_name": examples.name,
        **loaded.said,
        **_bounds(bounds),
    }
    options["groups"] = sources.groups(groups, lambda: len(options["names"]) or int(_largest(examples.y)) + 1)
    options["reference"] = None if reference is None else sources.loaded_network(reference).network
    with ShownProgress() as progress:
        options |= {"budget": budget, "out": place, "seed": seed, "progress": progress, "say": say}
        radius = sources.radius(str(eps))
        found = probe(
            loaded.network, examples.x, examples.y, eps=radius, norm=norm, train=examples.train, **options
        )
    if as_json:
        print_json(found.document)
        return
    for line in found.lines():
        tell(line)
    say(f"written to {place}: probe.json, probe.html, perturbations; `featscope verify {place}` checks them")


def _largest(y: Any) -> Any:
    return y.max()


def _bounds(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if text == "none":
        return {"bounds": None}
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise BadInput("bounds are two numbers", text, "write 0,1 or none") from None
    return {"bounds": (low, high)}


def _compare(one: Path, other: Path, as_json: bool) -> None:
    from rich.table import Table

    from featscope.cli.console import out
    from featscope.probe.compare import compared

    found = compared(one, other)
    if as_json:
        print_json(found.as_json())
        return
    table = Table("quantity", str(one), str(other), "difference", "95 % interval", "told apart", box=None)
    for line in found.lines:
        table.add_row(*line.cells())
    out.print(table)
    for text in found.notes:
        say(text)
