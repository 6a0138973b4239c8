"""`featscope list`: experiments and claims, with what each shows and how long it takes."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer

from featscope.cli.catalogue import TITLES, catalogue
from featscope.cli.console import JsonOption, PaperOption, out, print_json, shortened, tell
from featscope.core.errors import BadInput, known_as

Line = dict[str, Any]


def list_(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORDS]...", help="show what these words are about")
    ] = None,
    paper: PaperOption = None,
    as_json: JsonOption = False,
) -> None:
    """List experiments and claims, of one paper or about some words."""
    found = catalogue()
    papers = list(dict.fromkeys(line["paper"] for line in found["experiments"]))
    chosen = [word for word in words or [] if word.casefold() not in papers]
    named = [word for word in words or [] if word.casefold() in papers] + ([] if paper is None else [paper])
    kept = {known_as("paper", name, papers) for name in named}
    found = {kind: [line for line in lines if _about(line, kept, chosen)] for kind, lines in found.items()}
    if not any(found.values()):
        raise BadInput(
            "nothing is about this", " ".join([*chosen, *kept]), "`featscope list` shows the papers"
        )
    if as_json:
        print_json(found)
    elif kept or chosen:
        _every_line(found)
    else:
        _overview(found, papers)


def _about(line: Line, papers: set[str], words: list[str]) -> bool:
    text = " ".join([*map(str, line.values())]).casefold()
    return (not papers or line["paper"] in papers) and all(word.casefold() in text for word in words)


def _overview(found: dict[str, list[Line]], papers: list[str]) -> None:
    """Everything on one screen: the names of the experiments, and how many claims."""
    for paper in papers:
        claims = sum(line["paper"] == paper for line in found["claims"])
        tell(shortened(f"{paper.upper()} ({claims} claims): {TITLES.get(paper, paper)}", 80))
        names = ", ".join(line["name"] for line in found["experiments"] if line["paper"] == paper)
        tell(textwrap.fill(names, 78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))
    tell("")
    tell("One line each: featscope list at, or by words: featscope list robust ball")
    tell("More of one: featscope show|run EXPERIMENT, featscope explain|check CLAIM")


def _every_line(found: dict[str, list[Line]]) -> None:
    for line in found["experiments"]:
        takes = " ".join(line["takes"].get("cpu", "").replace(",", "").split()[:2])
        tell(shortened(f"{line['name']:<24}{takes:>8}  {line['shows']}", out.width))
    if found["experiments"] and found["claims"]:
        tell("")
    for line in found["claims"]:
        tell(shortened(f"{line['id']:<12} {line['reference']}: {line['statement']}", out.width))
