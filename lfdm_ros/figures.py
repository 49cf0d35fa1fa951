"""Pictures in files: PNG, SVG or PDF, by the suffix of the name."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import TYPE_CHECKING

from lfdm_ros.errors import InputError
from lfdm_ros.files import reason, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
DPI = 130  # of PNG
SMALL_DPI, COLOURS = 90, 48  # of a PNG for a page of the documentation
# Without a date: the same run gives the same file.
_METADATA = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def add_figure_argument(parser: argparse.ArgumentParser, shown: str) -> None:
    """Adds --figure FILE to a command; `shown` is what it draws."""
    parser.add_argument("--figure", type=Path, metavar="FILE", help=f"draw {shown}: PNG, SVG or PDF by the name's suffix")


def require_figure(path: Path | None, option: str = "--figure") -> None:
    """Checks the name of a picture before the work that it shows; None passes.

    Raises:
        InputError: no suffix of SUFFIXES, or no such folder.
    """
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{option} {path}: a picture is PNG, SVG or PDF; give a name that ends in .png, .svg or .pdf")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{option} {path}: no such folder")


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a figure in the format of its name, whole or not at all.

    Raises:
        InputError: as `require_figure`.
        OSError: as the disk does.
    """
    import matplotlib

    require_figure(path)
    suffix = path.suffix.lower()
    with matplotlib.rc_context({"svg.hashsalt": "lfdm"}), replacing(path) as partial:
        figure.savefig(partial, dpi=DPI, format=suffix[1:], metadata=_METADATA[suffix])


def save_png(figure: Figure, path: Path) -> None:
    """Writes a PNG of few colours, a third of the size. Raises InputError where it cannot be written."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=SMALL_DPI)
    try:
        # Not the usual median cut: it gives thin lines of different colours the same.
        image = Image.open(drawn).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        with replacing(path) as partial:
            image.save(partial, format="png", optimize=True)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {reason(error)}") from None
