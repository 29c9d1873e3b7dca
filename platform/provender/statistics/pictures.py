"""Sizes of encoded images, from their first bytes."""

from __future__ import annotations

from collections.abc import Sequence

_PNG = b"\x89PNG\r\n\x1a\n"
_START_OF_FRAME = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
HEAD = 1 << 16
"""Bytes that are looked at; a JPEG may have a thumbnail before its size."""


def picture(data: bytes | Sequence[int]) -> tuple[str, int, int, int]:
    """Format, width, height and channels of an encoded image; zeros where it does not tell.

    Sources: the PNG specification (IHDR is the first chunk), ITU-T T.81 annex B.2 (JPEG frame
    header), the GIF89a specification (logical screen descriptor).
    """
    head = bytes(data[:HEAD])
    if head.startswith(_PNG) and len(head) >= 26:
        channels = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}.get(head[25], 0)
        return "png", int.from_bytes(head[16:20]), int.from_bytes(head[20:24]), channels
    if head.startswith(b"\xff\xd8"):
        return _jpeg(head)
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        return "gif", int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little"), 3
    return "other", 0, 0, 0


def _jpeg(head: bytes) -> tuple[str, int, int, int]:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if marker in _START_OF_FRAME:
            height, width = (
                int.from_bytes(head[at + 5 : at + 7]),
                int.from_bytes(head[at + 7 : at + 9]),
            )
            return "jpeg", width, height, head[at + 9]
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            at += 2
            continue
        at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return "jpeg", 0, 0, 0
