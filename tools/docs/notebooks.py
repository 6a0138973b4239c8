"""Tutorials as notebooks: text and code of the page, with the outputs that the page shows."""

from __future__ import annotations

import json
import re
from typing import Any

from tutorials import FENCE

#: which tutorials are kept as notebooks beside their page
NOTEBOOKS = ("docs/tutorials/at.md", "docs/tutorials/fa.md")
#: Sphinx's own markup, which a notebook cannot show: the sentence that offers the notebook
OFFER = re.compile(r"\s*The same page as a notebook: \{download\}`[^`]*`\.")
INSTALL = (
    "This notebook needs featscope in its environment: `pip install featscope`, or the repository's `.venv`."
)


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def _text(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _code(code: str, shown: str | None) -> dict[str, Any]:
    outputs = [] if shown is None else [{"name": "stdout", "output_type": "stream", "text": _lines(shown)}]
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": outputs,
        "source": _lines(code),
    }


def cells(page: str) -> list[dict[str, Any]]:
    """The page cut at its blocks of code."""
    page = OFFER.sub("", page)
    found: list[dict[str, Any]] = []
    end = 0
    for block in FENCE.finditer(page):
        found += [_text(page[end : block.start()]), _code(block["code"], block["shown"])]
        end = block.end()
    return [*found, _text(page[end:]), _text(INSTALL)]


def notebook(page: str) -> str:
    """The notebook (format 4.5) of a page."""
    numbered = [{"id": f"cell-{index}", **cell} for index, cell in enumerate(cells(page))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    body = {
        "cells": numbered,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(body, ensure_ascii=False, indent=1) + "\n"
