"""XLNet pretraining records as a dataset of a project."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from provender.builders.steps import InSteps, Part, Serialized
from provender.nlp.pretraining.tokens import TokenStore, join_parts
from provender.nlp.recipes import tokens
from provender.nlp.recipes.arguments import check_shards, located, options_of
from provender.nlp.recipes.text import Text, text_of
from provender.nlp.xlnet_data.options import OF_FILES, Options
from provender.nlp.xlnet_data.pieces import Marks, XLNetPieces, marks_of, word_starts
from provender.nlp.xlnet_data.rows import Records, rows_of, step_count
from provender.nlp.xlnet_data.running import file_order
from provender.nlp.xlnet_data.stream import open_stream, stream_paths, write_stream
from provender.records.atomic import told_as_ours
from provender.records.shards import shard_bounds, shard_count

_BYTES_PER_TOKEN = 4
"""Of text, roughly."""
_RECORD_BYTES_PER_TOKEN = 4


class XlnetPretraining(InSteps, tfds.core.ShardBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """XLNet pretraining records made of a published version's text, or of text files.

    The records are those of `provender nlp create-xlnet-pretraining-data` for the same files and
    options, pass after pass; the files of a version are those of its examples. Text is tokenized, the
    tokens of each pass are laid out, then shards are written.

    Args:
        source: the published version, e.g. ``xsum:1.1.0``.
        text: its features with text, or lists of it; an example is a document, a line a sentence.
        split: which of its splits, e.g. ``train`` or ``train+validation``.
        input_file: text files or patterns, instead of a version.
        shards: number of files; by default as many as suit the size.
        dataset: name of the dataset; by default what the project calls it.
        version: number, by default 1.0.0.
        data_dir: as TFDS gives it.
        config: as TFDS gives it; there are none.
        **flags: as `provender.nlp.xlnet_data.Options`: ``sp_model_file``, ``seq_length``, ...
    """

    ARGUMENTS: ClassVar[dict[str, str]] = {
        "source": "version",
        "input_file": "file",
        "sp_model_file": "file",
        "dataset": "name",
    }
    STEPS: ClassVar[Mapping[str, Sequence[str]]] = {
        "tokens": ("source", "text", "split", "input_file", "sp_model_file", "do_lower_case"),
        # Where a file ends does not show in its tokens, but decides on the order of passes.
        "streams": (
            "source",
            "split",
            "input_file",
            "sp_model_file",
            "use_eod_token",
            "num_passes",
            "random_seed",
        ),
    }

    def __init__(
        self,
        *,
        source: Any = None,
        text: str | Sequence[str] = "text",
        split: str = "train",
        input_file: str | Sequence[str] | None = None,
        shards: int | None = None,
        dataset: str = "xlnet_pretraining",
        version: Any = None,
        data_dir: Any = None,
        config: Any = None,
        **flags: Any,
    ) -> None:
        check_shards(dataset, shards)
        self.name = dataset
        self.VERSION = tfds.core.Version(version or "1.0.0")
        self._text = text_of(dataset, source, text, split, input_file)
        fixed = functools.partial(Options, save_dir=".")
        self._options: Options = options_of(Options, dataset, flags, OF_FILES, make=fixed)
        self._shards = shards
        super().__init__(data_dir=data_dir, config=config)

    def _info(self) -> Any:
        options = self._options
        of_length = tfds.features.Tensor(shape=(options.seq_length,), dtype=np.int64)
        told = (
            *("seq_length", "reuse_length", "per_host_batch_size", "num_cores_per_host"),
            *("bi_data", "use_eod_token", "do_lower_case"),
        )
        return tfds.core.DatasetInfo(
            builder=self,
            description=(
                f"XLNet pretraining records of {options.seq_length} tokens, {options.reuse_length} of "
                f"them seen again, {options.num_passes} passes, seed {options.random_seed}."
            ),
            features=tfds.features.FeaturesDict(
                {
                    "input_word_ids": of_length,
                    "input_type_ids": of_length,
                    "boundary_indices": tfds.features.Tensor(shape=(None,), dtype=np.int64),
                    "label": tfds.features.Tensor(shape=(1,), dtype=np.int64),
                }
            ),
            metadata=tfds.core.MetadataDict({each: getattr(options, each) for each in told}),
            disable_shuffling=True,
        )

    def make_tokens(self, part: Part) -> list[Path]:
        """Tokenizes a part of the text."""
        return tokens.tokenize(part, located(self._text), self._pieces, "error")

    def make_streams(self, part: Part) -> list[Path]:
        """Lays out the tokens of some passes."""
        found: list[Path] = []
        mine = part.share(self._options.num_passes)
        for done, number in enumerate(mine):
            part.told(done, len(mine), "passes")
            found += self._stream(_pass_path(part.folder, number), number)
        return found

    def _stream(self, folder: Path, number: int) -> Sequence[Path]:
        paths = stream_paths(folder)
        if paths[0].exists():
            return paths
        text: Text = located(self._text)
        pieces: dict[int, list[Path]] = {}
        for piece, owner in enumerate(text.owners):
            path = tokens.piece_path(self.made["tokens"], piece)
            pieces.setdefault(owner, []).append(path)
        order = file_order(len(text.files), number, self._options.random_seed)
        with told_as_ours(folder):
            folder.mkdir(parents=True, exist_ok=True)
        store = folder / "store"
        join_parts([path for owner in order for path in pieces.get(owner, ())], store)
        write_stream(TokenStore(store), folder, self._marks.eod)
        shutil.rmtree(store, ignore_errors=True)
        return paths

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Any]]:
        text = located(self._text)
        text.check()
        assert self._marks
        shards = self._shards or self._usual_shards(text.size)
        return {
            "train": [functools.partial(self._examples, each, shards) for each in range(shards)]
        }

    def _usual_shards(self, size: int) -> int:
        options = self._options
        read = options.num_passes * (2 if options.bi_data else 1) * size // _BYTES_PER_TOKEN
        records = max(1, read // options.stride)
        written = records * options.seq_length * _RECORD_BYTES_PER_TOKEN
        return int(shard_count(written, records))

    def _examples(self, shard: int, shards: int) -> Iterator[tuple[int, Any]]:
        options, kind = self._options, self._pieces.vocabulary.dtype
        # Each pass has the same tokens, in another order.
        every = [
            rows_of(open_stream(_pass_path(self.made["streams"], number), kind), options)
            for number in range(options.num_passes)
        ]
        steps = step_count(every[0][0], options)
        start, stop = shard_bounds(steps * options.num_passes, shards)[shard]
        begins_word = word_starts(self._pieces.vocabulary)
        for at in range(start, stop):
            number, step = divmod(at, steps)
            rows = every[number]
            records = Records(options, self._marks, begins_word, number)
            for i, record in enumerate(records.of_step(rows, step)):
                yield at * len(rows) + i, Serialized(record)

    @cached_property
    def _pieces(self) -> XLNetPieces:
        return XLNetPieces(Path(self._options.sp_model_file), self._options.do_lower_case)

    @cached_property
    def _marks(self) -> Marks:
        return marks_of(self._pieces.vocabulary, eod=self._options.use_eod_token)


def _pass_path(folder: Path, number: int) -> Path:
    return folder / f"pass-{number:05d}"
