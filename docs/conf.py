"""The documentation: Sphinx with furo and MyST. `make docs` builds it, and takes a warning for an error."""

import featscope

project = "featscope"
author = "The featscope authors"
copyright = author
version = release = featscope.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
exclude_patterns = ["_build"]
templates_path: list[str] = []

html_theme = "furo"
html_title = f"featscope {release}"
html_static_path = ["_static"]
html_css_files = ["featscope.css"]
html_show_sphinx = False

# A definition list, a fence with options, a heading that can be linked to: what the pages use of MyST.
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 3

# Signatures say types, docstrings say the rest.
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "show-inheritance": False}
# Types in signatures are often of other packages, or parts that have no page here.
nitpick_ignore_regex = [(r"py:(class|obj|exc)", r".*")]

# `make docs-links` asks every address outside whether it answers.
linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False


def _escape_bars(app, what, name, obj, options, lines):
    """Docstrings write |J| for a size; reStructuredText would take it for a substitution."""
    lines[:] = [line if ">>>" in line or "``" in line else line.replace("|", "\\|") for line in lines]


def setup(app):
    """Connect what docstrings need."""
    app.connect("autodoc-process-docstring", _escape_bars)
