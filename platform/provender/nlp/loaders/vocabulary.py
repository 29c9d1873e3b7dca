"""Text to ids inside a `tf.data` pipeline, with nothing outside the pipeline's own graph.

A lookup table or a tokenizer made outside the pipeline's functions is a resource, and a tf.data
service cannot send resources to its workers. So WordPiece is the constant tensor that
`tensorflow_text.FastBertTokenizer` compiles from the vocabulary, and SentencePiece is made inside
the traced function, from the bytes of its model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from provender.errors import InputError, MissingFiles, SettingsError

CLS, SEP, MASK, PAD, UNK = "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]"
WORDPIECE, SENTENCEPIECE = "WordPiece", "SentencePiece"
_SENTENCEPIECE_PAD = "<pad>"
_CONTINUES = "##"


class Tokenizer(Protocol):
    """What loaders ask of a tokenizer.

    Attributes:
        cls_id: [CLS].
        sep_id: [SEP].
        pad_id: fills a row.
    """

    cls_id: int
    sep_id: int
    pad_id: int

    def tokenize(self, texts: Any) -> Any:
        """Int32 ragged [N, (ids)] of string [N]; called inside a traced function."""
        ...


class WordPiece:
    """BERT's tokenizer.

    Args:
        path: the vocabulary, one piece a line; any address that TensorFlow reads.
        lower_case: lower-case and strip accents.
        needs: pieces that must be in it besides [UNK].

    Raises:
        MissingFiles: there is no such file.
        InputError: a piece that is needed is missing.
    """

    def __init__(self, path: str, lower_case: bool, needs: Sequence[str] = (CLS, SEP)) -> None:
        import tensorflow as tf
        import tensorflow_text

        self.pieces = read_pieces(path)
        self._ids = {piece: number for number, piece in enumerate(self.pieces)}
        missing = [each for each in (UNK, *needs) if each not in self._ids]
        if missing:
            raise InputError(
                f"The vocabulary lacks {', '.join(missing)}.",
                where=path,
                hint="Use the model's own vocabulary, one piece a line, special ones included.",
            )
        self.cls_id, self.sep_id = self._ids.get(CLS, 0), self._ids.get(SEP, 0)
        self.pad_id = self._ids.get(PAD, 0)
        self._model = tensorflow_text.FastBertTokenizer(
            vocab=list(self.pieces),
            token_out_type=tf.int32,
            lower_case_nfd_strip_accents=lower_case,
        )

    def id_of(self, piece: str) -> int:
        """The id of a piece of the vocabulary."""
        return self._ids[piece]

    @property
    def specials(self) -> tuple[int, ...]:
        """Ids that stand for no text: padding, unknown, [CLS], [SEP] and [MASK]."""
        return tuple(self._ids[each] for each in (PAD, UNK, CLS, SEP, MASK) if each in self._ids)

    @property
    def continuations(self) -> tuple[int, ...]:
        """Ids of the pieces that continue a word."""
        return tuple(
            number for number, piece in enumerate(self.pieces) if piece.startswith(_CONTINUES)
        )

    def tokenize(self, texts: Any) -> Any:
        """Int32 ragged [N, (ids)] of string [N]."""
        return self._model.tokenize(texts)


class SentencePiece:
    """A SentencePiece model.

    Args:
        path: of the model; any address that TensorFlow reads.
        lower_case: strip accents and, where it is True, fold cases first, as ALBERT's
            preparation does; None leaves the text as it is.
        add_eos: append the model's end of sentence.
        needs: pieces that must be in it.
        needs_eos: whether it must have an end of sentence.

    Raises:
        MissingFiles: there is no such file.
        InputError: it is no model, or lacks a piece or the end of sentence.
    """

    def __init__(
        self,
        path: str,
        lower_case: bool | None = None,
        add_eos: bool = False,
        needs: Sequence[str] = (CLS, SEP),
        needs_eos: bool = False,
    ) -> None:
        import sentencepiece

        self._bytes = _read(path)
        self._lower_case, self._add_eos = lower_case, add_eos
        model = sentencepiece.SentencePieceProcessor()
        try:
            model.LoadFromSerializedProto(self._bytes)
        except RuntimeError as error:
            raise InputError(
                "The file is no SentencePiece model.", where=path, hint="Give its .model file."
            ) from error
        known = {each: model.piece_to_id(each) for each in (CLS, SEP, _SENTENCEPIECE_PAD)}
        found = {each: number for each, number in known.items() if number != model.unk_id()}
        missing = [each for each in needs if each not in found]
        if missing:
            raise InputError(
                f"The SentencePiece model lacks {', '.join(missing)}.",
                where=path,
                hint="Train it with these as user-defined symbols.",
            )
        self.eos_id = model.eos_id()
        if (add_eos or needs_eos) and self.eos_id < 0:
            raise InputError(
                "The SentencePiece model has no end of sentence.",
                where=path,
                hint="Train it with an eos_id.",
            )
        self.cls_id, self.sep_id = found.get(CLS, 0), found.get(SEP, 0)
        self.pad_id = found.get(_SENTENCEPIECE_PAD, 0)

    def tokenize(self, texts: Any) -> Any:
        """Int32 ragged [N, (ids)] of string [N]."""
        import tensorflow as tf
        import tensorflow_text

        if self._lower_case is not None:
            # Folding composes what it folds, so accents are taken apart after it.
            if self._lower_case:
                texts = tensorflow_text.case_fold_utf8(texts)
            texts = tensorflow_text.normalize_utf8(texts, "NFD")
            texts = tf.strings.regex_replace(texts, r"\p{Mn}", "")
        model = tensorflow_text.SentencepieceTokenizer(
            model=self._bytes, out_type=tf.int32, add_eos=self._add_eos
        )
        return model.tokenize(texts)


def tokenizer_of(kind: str, path: str, lower_case: bool) -> Tokenizer:
    """The tokenizer of a loader's options.

    Args:
        kind: ``WordPiece`` or ``SentencePiece``.
        path: of the vocabulary or the model.
        lower_case: whether to lower-case.

    Raises:
        SettingsError: there is no such kind.
        MissingFiles, InputError: see `WordPiece` and `SentencePiece`.
    """
    check_tokenization(kind)
    if kind == WORDPIECE:
        return WordPiece(path, lower_case)
    return SentencePiece(path, lower_case)


def check_tokenization(kind: str) -> None:
    """Raises SettingsError where there is no such kind of tokenization."""
    if kind not in (WORDPIECE, SENTENCEPIECE):
        raise SettingsError(
            f"Unsupported tokenization: {kind!r}.",
            where="tokenization",
            hint=f"Use {WORDPIECE} or {SENTENCEPIECE}.",
        )


def read_pieces(path: str) -> tuple[str, ...]:
    """The pieces of a vocabulary file in the order of their ids.

    Raises:
        MissingFiles: there is no such file.
        InputError: it is no UTF-8 text.
    """
    try:
        text = _read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            "The vocabulary is no UTF-8 text.", where=path, hint="Give the vocab.txt of the model."
        ) from error
    return tuple(line.rstrip("\r") for line in text.rstrip("\r\n").split("\n"))


def _read(path: str) -> bytes:
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            data: bytes = file.read()
    except tf.errors.NotFoundError as error:
        raise MissingFiles(
            "There is no such vocabulary or model.", where=path, hint="Check the path."
        ) from error
    return data
