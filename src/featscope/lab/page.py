"""The lab's page: one HTML file that holds its scripts, and asks nothing of the network but its own server,
if any.
"""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment

from featscope import __version__
from featscope.core.files import write_bytes
from featscope.core.rules import CONSTANT, MUCH
from featscope.lab import controls, stories
from featscope.plots import palette
from featscope.report.collect import require_page
from featscope.report.page import in_script
from featscope.report.templating import page_templates

PAPERS = {
    "at": {
        "short": "AT",
        "title": "patches: robust and non-robust features",
        "name": "the coefficient recursion of Lemmas D.4 and D.16 to D.18, exactly, in its small-step limit",
        "address": "https://arxiv.org/abs/2410.08503",
    },
    "fa": {
        "short": "FA",
        "title": "clusters: averaging and its price",
        "name": "the orthogonal-noise recursion: λ and σ of Lemmas 5.1 and 5.2 without ⟨ξ_i, ξ_a⟩; λ "
        "within 1 % of descent",
        "address": "https://arxiv.org/abs/2410.10322",
    },
    "cgro": {
        "short": "CGRO",
        "title": "signal and noise: robust overfitting",
        "name": "the strided recursion: that of §4.3 in large steps, 12 points followed; T₁ within 3 % of "
        "descent for N ≤ 12, and of the law beyond",
        "address": "https://arxiv.org/abs/2306.01271",
    },
}


def _environment() -> Environment:
    made = page_templates("featscope.lab")
    made.filters |= {"in_script": in_script}
    return made


def _looks() -> dict[str, dict[str, object]]:
    """Colour and dash of every meaning; the k-th of several without a meaning is `category k`."""
    named = {
        **palette.MEANINGS,
        **{f"category {place}": look for place, look in enumerate(palette.CATEGORIES)},
    }
    return {name: {"colour": look.colour, "dash": list(look.dash)} for name, look in named.items()}


def lab_page(live: bool) -> str:
    """The page; ``live`` if a server answers "run it for real"."""
    data = {
        "live": live,
        "papers": PAPERS,
        "controls": controls.as_json(),
        "stories": stories.as_json(),
        "looks": _looks(),
        "rules": {"much": MUCH, "constant": CONSTANT},
    }
    return _environment().get_template("lab.html.j2").render(data=data, live=live, version=__version__)


def write_lab(target: Path) -> None:
    """The page without a server, as one file for a web site."""
    require_page(target)
    write_bytes(target, lab_page(live=False).encode())
