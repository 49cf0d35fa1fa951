"""Settings of the documentation site: `make docs` makes it of the pages here and of the docstrings."""

import re
import sys
from pathlib import Path

from numpy.typing import ArrayLike
from sphinx.util.typing import stringify_annotation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lfdm_ros import __version__

project = "lfdm_ros"
author = "the authors of lfdm_ros"
project_copyright = "the authors of lfdm_ros, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"lfdm_ros {version}"
html_copy_source = False
highlight_language = "bash"  # of indented blocks; others name their language

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4  # links to headings as a forge makes them

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_use_ivar = True  # fields of dataclasses are documented once
autodoc_class_signature = "separated"
python_maximum_signature_line_length = 100
linkcheck_timeout = 20
suppress_warnings = ["ref.python"]  # fields of classes become references by their bare names: x of Pose, of Circle, of Goal

# Docstrings are plain text with `code`: what RST would read as markup in them is not.
_MARKUP = re.compile(r"(`[^`]*`)|([*|]|(?<=\w)_(?!\w))")


def escape_markup(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Escapes asterisks, bars and trailing underscores outside `code` in a docstring's lines."""
    lines[:] = [_MARKUP.sub(lambda match: match[1] or f"\\{match[2]}", line) for line in lines]


def name_array_like(app: object, what: str, name: str, obj: object, options: object, signature: str | None,
                    returns: str | None) -> tuple[str | None, str | None]:
    """Returns a signature with ArrayLike by its name in place of what it stands for."""
    whole = stringify_annotation(ArrayLike, "smart")
    return signature and signature.replace(whole, "~numpy.typing.ArrayLike"), returns and returns.replace(whole, "~numpy.typing.ArrayLike")


def setup(app) -> None:
    """Registers the hooks of docstrings; the first runs before napoleon's, which writes RST."""
    app.connect("autodoc-process-docstring", escape_markup, priority=400)
    app.connect("autodoc-process-signature", name_array_like)
