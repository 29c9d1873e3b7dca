"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


def bytes_text(size: int) -> str:
    """A number of bytes: ``512 B``, ``1.5 KiB``, ``20 GiB``."""
    if size < _STEP:
        return f"{size} B"
    value = float(size)
    for unit in _UNITS:
        value /= _STEP
        # 1023.96 would be printed as 1024.0 of a unit.
        if value < _STEP - 0.05 or unit == _UNITS[-1]:
            break
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"


def amount_text(value: int | float, unit: str) -> str:
    """So many of a unit, ``examples`` or the like; bytes get a size prefix."""
    if unit == "bytes":
        return bytes_text(int(value))
    return counted(int(value), unit.removesuffix("s")) if unit else f"{int(value):,}"


def counted(count: int, noun: str) -> str:
    """``1 example``, ``2,000 examples``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def seconds_text(seconds: float | None) -> str:
    """A duration: ``0.04 s``, ``12.3 s``, ``3 min 05 s``, ``2 h 10 min``; empty for None."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = whole // 60
    return f"{minutes // 60} h {minutes % 60:02} min"


def time_text(when: datetime | None) -> str:
    """A point in time for tables, in UTC: ``2026-03-01 12:30:05``."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if when else ""


def iso(when: datetime) -> str:
    """A point in time for JSON: ISO 8601 in UTC, ``2026-03-01T12:30:05.123456Z``."""
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def short_id(id: str | None) -> str:
    """The first digits of an id; commands take them in place of the whole."""
    return (id or "")[:8]
