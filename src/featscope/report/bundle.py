"""Vega, Vega-Lite and Vega-Embed as one script, from the wheel that draws the figures.

Making it takes seconds, so it is kept in the user's cache folder, with its digest in front: what is damaged
is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from functools import cache
from importlib.metadata import version
from pathlib import Path

SNIPPET = "window.vegaEmbed = vegaEmbed;"


def _place(version: str) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "featscope" / f"vega-{version}.js"


def _sealed(script: str) -> str:
    return f"// {hashlib.sha256(script.encode()).hexdigest()}\n{script}"


def _kept(place: Path) -> str | None:
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    _, _, script = text.partition("\n")
    return script if script and text == _sealed(script) else None


def _keep(place: Path, script: str) -> None:
    # A cache that cannot be written costs time, nothing else.
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        spare = place.with_name(f"{place.name}.{os.getpid()}.new")
        spare.write_text(_sealed(script), encoding="utf-8")
        spare.replace(place)


@cache
def bundle() -> str:
    """The script, which assigns `vegaEmbed` to the window; it may stand in a script element."""
    import vl_convert

    place = _place(version("vl-convert-python"))
    script = _kept(place)
    if script is None:
        script = vl_convert.javascript_bundle(SNIPPET).replace("</script", "<\\/script")
        _keep(place, script)
    return script
