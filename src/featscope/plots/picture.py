"""A picture as data: a Vega-Lite spec with the words that go with it, drawn by `vl_convert` where it is
wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from featscope.core.errors import BadInput
from featscope.plots.palette import DARK, LIGHT

#: what JSON viewers ask for; it names the language, and nothing loads it
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"


@dataclass(frozen=True)
class Picture:
    """A figure: ``spec`` is Vega-Lite with its data inline and without colours of the page, which ``themed``
    adds.

    ``title`` says what is drawn, ``caption`` how to read it, ``alt`` the kind of chart, its axes and its
    series
    for those who do not see it; ``claims`` are ids of the claims it supports, ``reproduces`` names the
    paper's figure.
    """

    title: str
    caption: str
    alt: str
    spec: Mapping[str, Any]
    claims: tuple[str, ...] = ()
    reproduces: str = ""

    def themed(self, dark: bool = False) -> dict[str, Any]:
        """The spec with the colours of a light or a dark page, and the alternative text as its
        description."""
        return {"description": self.alt, **self.spec, "config": DARK if dark else LIGHT}

    def svg(self) -> str:
        """The picture as an SVG text."""
        import vl_convert

        return vl_convert.vegalite_to_svg(self.themed())

    def png(self, scale: float = 2) -> bytes:
        """The picture as a PNG file; ``scale`` 1 is 72 dots an inch."""
        import vl_convert

        return vl_convert.vegalite_to_png(self.themed(), scale=scale)

    def pdf(self) -> bytes:
        """The picture as a PDF file of one page, its size."""
        import vl_convert

        return vl_convert.vegalite_to_pdf(self.themed())

    def json(self) -> str:
        """The themed spec as JSON text, which any Vega-Lite editor opens."""
        import json

        return json.dumps({"$schema": SCHEMA, **self.themed()}, ensure_ascii=False, allow_nan=False)

    def save(self, path: Path) -> None:
        """Write the picture in the format that the path's ending names: svg, png, pdf or json."""
        formats: dict[str, Callable[[], str | bytes]] = {
            ".svg": self.svg,
            ".png": self.png,
            ".pdf": self.pdf,
            ".json": self.json,
        }
        if path.suffix not in formats:
            known = ", ".join(formats)
            raise BadInput("no format of pictures", f"{path.name!r}", f"let the name end in one of {known}")
        drawn = formats[path.suffix]()
        path.write_bytes(drawn.encode() if isinstance(drawn, str) else drawn)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"image/svg+xml": self.svg(), "text/plain": f"{self.title}: {self.alt}"}
