"""Builds the site of the documentation: `make docs`."""

import logging
import sys
import tomllib
from importlib.metadata import version as installed_version
from pathlib import Path

# Generated pages import `docs.generators` and the code that they describe.
sys.path.insert(0, str(Path(__file__).parents[1]))

# It tells of its plugins as it is imported, and Sphinx prints that.
logging.getLogger("alembic").setLevel(logging.WARNING)

project = "linear_retry"
author = "the authors of linear_retry"
copyright = author  # noqa: A001  # Sphinx's own name
version = release = installed_version("linear-retry")

extensions = [
    "myst_parser",
    "sphinx_copybutton",
    "docs.generators.content",
    "docs.generators.docstrings",
]
exclude_patterns = ["generators"]
smartquotes = False  # --json is an option, not a dash

nitpicky = True
# Types in signatures that are private, or from other libraries.
nitpick_ignore_regex = [("py:.*", r"(?!linear_retry\.[A-Z]).*")]

autoclass_content = "both"
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "imported-members": True,
    "inherited-members": "BaseException, Exception, Metric",
}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

_pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))

html_theme = "furo"
html_theme_options = {
    "source_repository": _pyproject["project"]["urls"]["Repository"],
    "source_branch": "main",
    "source_directory": "docs/",
}
html_title = f"linear_retry {version}"
html_copy_source = False
html_show_copyright = False
html_static_path = ["generators/site.css"]
html_css_files = ["site.css"]

copybutton_exclude = ".linenos, .gp, .go"
