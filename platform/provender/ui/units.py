"""Numbers, sizes and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


def size(value: int | float | None) -> str:
    """Bytes: ``512 B``, ``1.5 KiB``, ``20 GiB``; empty for None."""
    if value is None:
        return ""
    if value < _STEP:
        return f"{value:.0f} B"
    power = 1
    # 1023.6 would be printed as 1,024 of a unit.
    while value / _STEP**power >= _STEP - 0.5 and power < len(_UNITS):
        power += 1
    amount = value / _STEP**power
    number = f"{amount:.1f}" if amount < 9.95 else f"{amount:,.0f}"
    return f"{number} {_UNITS[power - 1]}"


def count(value: int | float | None) -> str:
    """A whole number with thousands separators; empty for None."""
    return "" if value is None else f"{value:,.0f}"


def number(value: float | int | None) -> str:
    """A number of a statistic: four digits that matter, no trailing zeros."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}" if abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:,.4g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.3g}"


def counted(value: int, noun: str) -> str:
    """``1 example``, ``2,000 examples``."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def seconds(value: float | None) -> str:
    """A duration: ``0.04 s``, ``12.3 s``, ``3 min 05 s``, ``2 h 10 min``; empty for None."""
    if value is None:
        return ""
    if value < 1:
        return f"{value:.2f} s"
    if value < 59.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = whole // 60
    return f"{minutes // 60} h {minutes % 60:02} min"


def moment(when: datetime | None) -> Markup:
    """A point in time as HTML, in UTC to the second; to the microsecond for machines."""
    if when is None:
        return Markup("")
    when = when.astimezone(UTC)
    text = when.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}" title="UTC">{}</time>').format(when.isoformat(), text)


def day(when: datetime | None) -> Markup:
    """A point in time as HTML, to the minute."""
    if when is None:
        return Markup("")
    when = when.astimezone(UTC)
    text = when.strftime("%Y-%m-%d %H:%M")
    title = when.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(when.isoformat(), title, text)
