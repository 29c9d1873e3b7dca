"""SentencePiece that tells of each piece where its characters stand."""

from __future__ import annotations

from itertools import accumulate

from provender.nlp.text.pieces import SentencePiece


class SpannedPieces(SentencePiece):
    """A SentencePiece model; see `provender.nlp.text.pieces.SentencePiece`."""

    def spans(self, prepared: str) -> list[tuple[int, int, int]]:
        """The pieces of a prepared text.

        Args:
            prepared: as `provender.nlp.text.pieces.prepared` gives it.

        Returns:
            For each piece its id, the first character that it stands for, and the one after the
            last.
        """
        from sentencepiece import sentencepiece_pb2

        # The serialized message counts bytes in every release; what other forms count has changed.
        serialized = self._processor.encode(prepared, out_type="serialized_proto")
        found = sentencepiece_pb2.SentencePieceText.FromString(serialized).pieces
        if prepared.isascii():
            return [(each.id, each.begin, each.end) for each in found]
        character_at = _characters(prepared)
        return [(each.id, character_at[each.begin], character_at[each.end]) for each in found]


def _characters(text: str) -> dict[int, int]:
    """Byte at which a character begins in UTF-8 -> its number; so, too, of the end."""
    sizes = (len(each.encode("utf-8", "surrogatepass")) for each in text)
    return {byte: i for i, byte in enumerate(accumulate(sizes, initial=0))}
