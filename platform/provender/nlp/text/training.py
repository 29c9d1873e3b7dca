"""Making vocabularies: WordPiece and SentencePiece, the same from the same text."""

from __future__ import annotations

import codecs
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from provender.errors import InputError, SettingsError
from provender.nlp.text.basic import basic_tokens, split_words
from provender.nlp.text.vocabulary import CLS, CONTINUATION, MASK, PAD, SEP, UNKNOWN
from provender.records.atomic import AtomicFile, told_as_ours

SPECIAL = (PAD, UNKNOWN, CLS, SEP, MASK)
MODELS = ("unigram", "bpe")
_LONGEST_LINE = 1 << 16
_WORDS_AT_ONCE = 1 << 19


@dataclass(frozen=True)
class Trained:
    """What was made.

    Attributes:
        outputs: the files.
        size: tokens.
    """

    outputs: tuple[str, ...]
    size: int


def train_wordpiece(
    sources: Sequence[Path],
    target: Path,
    *,
    size: int,
    lower: bool = True,
    min_frequency: int = 2,
    unused: int = 0,
) -> Trained:
    """Makes a WordPiece vocabulary file: special tokens first, then characters and pieces.

    Args:
        sources: UTF-8 text files.
        target: the file to write.
        size: tokens, special ones included; fewer where the text does not give so many.
        lower: whether to lower case text and remove its accents.
        min_frequency: how often a piece must occur.
        unused: reserved tokens, ``[unused0]`` and so on, after the special ones.

    Raises:
        InputError: the text gives no piece.
        SettingsError: the package ``tokenizers`` is not installed, or the size is too small.
        StoreError: a file cannot be read or written.
    """
    try:
        import tokenizers
        from tokenizers import normalizers, pre_tokenizers, trainers
    except ImportError as error:
        raise _needs("tokenizers") from error
    reserved = [*SPECIAL, *(f"[unused{each}]" for each in range(unused))]
    if size <= len(reserved):
        raise SettingsError(
            f"--size must exceed the {len(reserved)} special tokens, got {size}.", where="--size"
        )
    alphabet, inner = _characters(sources, lower, size // 2)
    model = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=UNKNOWN))
    model.normalizer = normalizers.BertNormalizer(lowercase=lower)
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # The trainer breaks ties by ids, and gives characters ids as its hash tables happen to list
    # them. Named beforehand, they have the same ids each time, and so has everything else.
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=[*reserved, *inner],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    model.train_from_iterator(_lines(sources), trainer)
    ids = model.get_vocab()
    tokens = sorted(ids, key=ids.__getitem__)
    if len(tokens) == len(reserved):
        raise InputError("The text gives no tokens.", where=", ".join(map(str, sources)))
    with AtomicFile(target) as file:
        file.write("".join(f"{each}\n" for each in tokens).encode())
    return Trained((str(target),), len(tokens))


def _characters(sources: Sequence[Path], lower: bool, most: int) -> tuple[list[str], list[str]]:
    """The most frequent characters, and the continuations that they make; each in a fixed order."""
    counts: Counter[str] = Counter()
    inner: set[str] = set()
    for words in _counted(sources):
        for word, count in words.items():
            for token in basic_tokens(word, lower):
                for each in token:
                    counts[each] += count
                inner.update(token[1:])
    alphabet = sorted(sorted(counts), key=lambda each: -counts[each])[:most]
    kept = set(alphabet)
    return alphabet, [f"{CONTINUATION}{each}" for each in sorted(inner & kept)]


def _counted(sources: Sequence[Path]) -> Iterator[Counter[str]]:
    """Counts of words, given out whenever they have become many."""
    words: Counter[str] = Counter()
    for line in _lines(sources):
        words.update(split_words(line))
        if len(words) > _WORDS_AT_ONCE:
            yield words
            words = Counter()
    yield words


def train_sentencepiece(
    sources: Sequence[Path],
    target: Path,
    *,
    size: int,
    lower: bool = True,
    model: str = "unigram",
    coverage: float = 0.9995,
    max_lines: int = 5_000_000,
) -> Trained:
    """Makes a SentencePiece model with BERT's special tokens, ``<pad>`` being 0.

    Args:
        sources: UTF-8 text files.
        target: the model to write; a ``.vocab`` file beside it lists its pieces.
        size: pieces, special ones included.
        lower: whether to lower case text and remove its accents before.
        model: ``unigram`` or ``bpe``.
        coverage: share of characters that get pieces of their own.
        max_lines: lines to learn from at most, the first ones: all are held in memory.

    Raises:
        InputError: the text gives too few pieces.
        SettingsError: the package ``sentencepiece`` is not installed, or the model is unknown.
        StoreError: a file cannot be read or written.
    """
    from provender.nlp.text.pieces import prepared

    try:
        import sentencepiece
    except ImportError as error:
        raise _needs("sentencepiece") from error
    if model not in MODELS:
        raise SettingsError(f"--model must be unigram or bpe, got {model!r}.", where="--model")
    if next(_lines(sources), None) is None:
        raise InputError("The text gives no tokens.", where=", ".join(map(str, sources)))
    made = io.BytesIO()
    lines = (prepared(" ".join(each.split()), lower) for each in islice(_lines(sources), max_lines))
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=made,
            vocab_size=size,
            model_type=model,
            character_coverage=coverage,
            input_sentence_size=0,
            num_threads=1,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=[CLS, SEP, MASK],
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        text = str(error).splitlines()[-1] if str(error) else "no reason given"
        raise InputError(
            f"SentencePiece makes no model of {size:,} pieces: {text}",
            where=", ".join(map(str, sources)),
            hint="Give a smaller --size, or more text.",
        ) from error
    processor = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
    listing = target.with_suffix(".vocab")
    count = processor.get_piece_size()
    pieces: list[Any] = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(count)]
    with AtomicFile(target) as file, AtomicFile(listing) as listed:
        file.write(made.getvalue())
        listed.write("".join(f"{piece}\t{score:g}\n" for piece, score in pieces).encode())
    return Trained((str(target), str(listing)), count)


def _needs(package: str) -> SettingsError:
    return SettingsError(f"This needs the package {package}.", hint="pip install 'provender[nlp]'")


def _lines(sources: Sequence[Path]) -> Iterator[str]:
    """The lines of files, long ones in pieces.

    Raises:
        InputError: bytes are no UTF-8; names the file, the line and the byte.
        StoreError: a file cannot be read.
    """
    for path in sources:
        decoder = codecs.getincrementaldecoder("utf-8")()
        at, number = 0, 1
        with told_as_ours(path), path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE):
                ends = line.endswith(b"\n")
                waiting = len(decoder.getstate()[0])
                try:
                    text = decoder.decode(line, final=ends)
                except UnicodeDecodeError as error:
                    byte = at - waiting + error.start
                    raise InputError(
                        f"{path.name} is not UTF-8 text: byte {byte:,}, in line {number:,}.",
                        where=f"{path}:{number}",
                        hint="Convert the file to UTF-8.",
                        facts={"file": str(path), "line": number, "byte": byte},
                    ) from error
                at += len(line)
                number += ends
                if text.strip():
                    yield text
