"""How pages are made of templates: escaped, and an unknown name is an error."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape


def page_templates(*packages: str) -> Environment:
    """The templates of packages, then those that every page shares."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "featscope.report")]),
        autoescape=select_autoescape(["j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
