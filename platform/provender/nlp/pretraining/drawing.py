"""A picture of a file's statistics: its lengths and its shares, as SVG or PNG.

The same shapes are drawn both ways, in the manner of the pages' own plots: bars without axes, the
numbers beside them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from provender.errors import SettingsError
from provender.records.atomic import AtomicFile

_WIDTH, _ROW, _MARGIN, _HISTOGRAM = 640, 24, 24, 120
_INK, _FAINT, _FILL, _TRACK = "#1f2937", "#6b7280", "#2563eb", "#e5e7eb"
_BINS = 32
_CLASSES = 20
_SHARES = {
    "masking_rate": "masked of real tokens",
    "mask_share": "masked: [MASK]",
    "keep_share": "masked: kept",
    "random_share": "masked: random",
    "random_next": "random next sentence",
    "follows": "B follows A",
    "impossible": "without an answer",
    "continued": "goes on from another",
    "full": "full examples",
    "padding": "padding",
}


@dataclass(frozen=True)
class _Bar:
    """A filled rectangle, in pixels."""

    x: float
    y: float
    width: float
    height: float
    fill: str


@dataclass(frozen=True)
class _Text:
    """Text whose line is centred at ``y`` and that begins, or ends, at ``x``."""

    x: float
    y: float
    text: str
    fill: str = _INK
    ends: bool = False


def check_name(path: Path) -> None:
    """Refuses names of other kinds of pictures.

    Raises:
        SettingsError: the name ends with neither .svg nor .png.
    """
    if path.suffix.lower() not in (".svg", ".png"):
        raise SettingsError(
            f"A plot is .svg or .png, got {path.name}.", where="--plot", hint="--plot lengths.svg"
        )


def draw(title: str, figures: Mapping[str, Any], lengths: Mapping[int, int], path: Path) -> None:
    """Draws statistics to a file.

    Args:
        title: stands above.
        figures: as `Statistics.to_json` gives them.
        lengths: examples by their number of real tokens.
        path: a name that ends with .svg or .png.

    Raises:
        SettingsError: it ends otherwise.
        StoreError: it cannot be written.
    """
    check_name(path)
    shapes, height = _shapes(title, figures, lengths)
    made = _svg(shapes, height) if path.suffix.lower() == ".svg" else _png(shapes, height)
    with AtomicFile(path) as file:
        file.write(made)


def bins(lengths: Mapping[int, int], longest: int) -> list[int]:
    """Counts of examples in even bins from 1 to the longest length."""
    count = min(_BINS, max(longest, 1))
    found = [0] * count
    for length, each in lengths.items():
        found[min(count - 1, max(0, (length - 1) * count // max(longest, 1)))] += each
    return found


def _shapes(
    title: str, figures: Mapping[str, Any], lengths: Mapping[int, int]
) -> tuple[list[_Bar | _Text], int]:
    shapes: list[_Bar | _Text] = [_Text(_MARGIN, _MARGIN, title)]
    longest = max([*figures["seq_lengths"], *lengths, 1])
    counts = bins(lengths, longest)
    most = max([*counts, 1])
    wide = (_WIDTH - 2 * _MARGIN) / len(counts)
    bottom = 2 * _MARGIN + _HISTOGRAM
    for at, each in enumerate(counts):
        tall = _HISTOGRAM * each / most
        shapes.append(_Bar(_MARGIN + at * wide, bottom - tall, wide * 0.92, tall, _FILL))
    y: float = bottom + 14
    shapes += [
        _Text(_MARGIN, y, "1 token", _FAINT),
        _Text(_WIDTH - _MARGIN, y, f"{longest:,} tokens", _FAINT, ends=True),
    ]
    y += 1.5 * _ROW
    shares = {label: figures.get(name) for name, label in _SHARES.items()}
    classes = list(figures.get("classes", {}).items())[:_CLASSES]
    shares |= {f"class {name}": value for name, value in classes}
    for label, value in shares.items():
        if value is None:
            continue
        full = _WIDTH - 2 * _MARGIN - 260
        shapes += [
            _Text(_MARGIN, y, label),
            _Bar(_MARGIN + 180, y - 6, full, 12, _TRACK),
            _Bar(_MARGIN + 180, y - 6, full * min(value, 1), 12, _FILL),
            _Text(_WIDTH - _MARGIN, y, f"{100 * value:.2f} %", ends=True),
        ]
        y += _ROW
    return shapes, round(y)


def _svg(shapes: Sequence[_Bar | _Text], height: int) -> bytes:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for each in shapes:
        if isinstance(each, _Bar):
            parts.append(
                f'<rect x="{each.x:.2f}" y="{each.y:.2f}" width="{each.width:.2f}" '
                f'height="{each.height:.2f}" fill="{each.fill}"/>'
            )
        else:
            anchor = "end" if each.ends else "start"
            parts.append(
                f'<text x="{each.x:.2f}" y="{each.y:.2f}" fill="{each.fill}" '
                f'text-anchor="{anchor}" dominant-baseline="central">{escape(each.text)}</text>'
            )
    return "\n".join([*parts, "</svg>\n"]).encode()


def _png(shapes: Sequence[_Bar | _Text], height: int) -> bytes:
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (_WIDTH, height), "#fff")
    pen = ImageDraw.Draw(picture)
    font = ImageFont.load_default(13)
    for each in shapes:
        if isinstance(each, _Bar):
            if each.width >= 1 and each.height > 0:
                corner = (each.x + each.width, each.y + each.height)
                pen.rectangle([(each.x, each.y), corner], fill=each.fill)
        else:
            anchor = "rm" if each.ends else "lm"
            pen.text((each.x, each.y), each.text, fill=each.fill, font=font, anchor=anchor)
    made = io.BytesIO()
    picture.save(made, "png")
    return made.getvalue()
