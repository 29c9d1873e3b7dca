"""Sentences and pairs with their labels, encoded, as a dataset of a project."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from provender.errors import InputError, SettingsError
from provender.nlp.finetuning.classification import RowEncoder, metadata
from provender.nlp.finetuning.features import pair_features
from provender.nlp.finetuning.rows import Row
from provender.nlp.recipes.arguments import ENCODING, check_shards, encoding_options, located
from provender.nlp.recipes.records import (
    FromVersion,
    Numbers,
    RecordsInSteps,
    Supply,
    as_features,
)
from provender.nlp.recipes.text import check_texts
from provender.nlp.recipes.version import Rows, SourceVersion

_NUMBERS: Numbers = ("example_id", 0)


class SentencePairs(RecordsInSteps, skip_registration=True):  # type: ignore[call-arg]
    """Fine-tuning records of a published version's sentences, or pairs of them.

    The records are those of `provender nlp create-finetuning-data --tfds-params` for this version,
    in the order in which it stores its examples. They are encoded, then shards are written, in which
    they are numbered.

    Args:
        source: the published version.
        text: its feature with text, or two of them.
        label: its feature with the class, or the number; False for records without.
        labels: names of the classes by number, where they are not the version's own; needed where it
            has texts, not numbers.
        skip_label: examples of this class, a name or a number, are left out.
        regression: whether labels are numbers.
        weight: its feature that says how much an example counts.
        splits: split -> split of the source; by default all of them under their names.
        unlabeled: splits whose labels are not known: theirs are 0.
        shards: number of files of each split; by default as many as suit the size.
        dataset: name of the dataset; by default what the project calls it.
        version: number, by default 1.0.0.
        data_dir: as TFDS gives it.
        config: as TFDS gives it; there are none.
        **flags: ``vocab_file``, ``sp_model_file``, ``tokenization``, ``do_lower_case`` and
            ``max_seq_length``, as `provender.nlp.finetuning.Options` has them.
    """

    STEPS: ClassVar[Mapping[str, Sequence[str]]] = {
        "records": (
            *("source", "text", "label", "labels", "skip_label", "regression", "weight"),
            *("splits", "unlabeled", *ENCODING),
        )
    }
    ARGUMENTS: ClassVar[dict[str, str]] = {
        "source": "version",
        "vocab_file": "file",
        "sp_model_file": "file",
        "dataset": "name",
    }

    def __init__(
        self,
        *,
        source: Any = None,
        text: str | Sequence[str] = "text",
        label: str | bool = "label",
        labels: Sequence[str] | None = None,
        skip_label: str | int | None = None,
        regression: bool = False,
        weight: str | None = None,
        splits: Mapping[str, str] | None = None,
        unlabeled: Sequence[str] = (),
        shards: int | None = None,
        dataset: str = "sentence_pairs",
        version: Any = None,
        data_dir: Any = None,
        config: Any = None,
        **flags: Any,
    ) -> None:
        check_shards(dataset, shards)
        self._texts = [text] if isinstance(text, str) else list(text)
        if source is None or not 1 <= len(self._texts) <= 2:
            raise SettingsError(
                "Records are made of one text or two of a published version.",
                where=f"{dataset}, source, text",
                hint='source = "pairs:1.0.0" with text = ["premise", "hypothesis"].',
            )
        if labels and (regression or not label):
            raise SettingsError(
                "Names of classes are given, but labels are no classes.", where=f"{dataset}, labels"
            )
        if skip_label is not None and (regression or not label):
            raise SettingsError(
                "A class is to be left out, but labels are no classes.",
                where=f"{dataset}, skip_label",
            )
        self.name = dataset
        self.VERSION = tfds.core.Version(version or "1.0.0")
        self._options = encoding_options(dataset, flags, ENCODING)
        self._length = self._options.max_seq_length
        self._skip = skip_label
        self._label = label if isinstance(label, str) else None
        self._labels, self._regression = list(labels or ()), regression
        self._weight, self._unlabeled = weight, list(unlabeled)
        self._splits, self._shards = splits, shards
        self._source = source if isinstance(source, Mapping) else None
        super().__init__(data_dir=data_dir, config=config)

    def _info(self) -> Any:
        length = self._options.max_seq_length
        label = None if self._label is None else np.float32 if self._regression else np.int64
        labels = self._labels or self._labels_of_source()
        told = metadata(self._options, None, labels, bool(self._weight), self._regression)
        kind = told["task_type"]
        classes = f" Classes by number: {', '.join(labels)}." if labels else ""
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"Fine-tuning records of {length} tokens for {kind}.{classes}",
            features=as_features(pair_features(length, label, weighted=bool(self._weight))),
            metadata=tfds.core.MetadataDict(told),
            disable_shuffling=True,
        )

    def _labels_of_source(self) -> list[str]:
        """Names of the version's classes, where it is known and has such."""
        if self._source is None or self._label is None or self._regression:
            return []
        features = SourceVersion(self._source, []).features()
        if self._label not in features:
            return []
        return [str(each) for each in getattr(features[self._label], "names", None) or ()]

    def supplies(self) -> Mapping[str, Supply]:
        """See `RecordsInSteps`."""
        known = located(self._source)
        splits = dict(self._splits or {name: name for name in known["splits"]})
        unknown = [each for each in self._unlabeled if each not in splits]
        if unknown:
            raise SettingsError(
                f"There is no split {unknown[0]!r}, which is unlabeled.",
                where=f"{self.name}, unlabeled",
                hint=f"There are: {', '.join(splits)}.",
            )
        encode = RowEncoder(self._options, self._regression)
        encode.check()
        _ = self._skipped
        found: dict[str, Supply] = {}
        for split, name in splits.items():
            source = SourceVersion(known, [name])
            self._check(source)
            read = functools.partial(self._rows, source, split)
            found[split] = FromVersion(source, read, encode, _NUMBERS)
        return found

    def _check(self, source: SourceVersion) -> None:
        """Refuses features that do not serve.

        Raises:
            SplitError, UnknownReference, InputError: a split or a feature is not there, or is of
                another kind.
        """
        assert source.files
        check_texts(source, self._texts)
        features = source.features()
        for name in filter(None, (self._label, self._weight)):
            if name not in features:
                raise InputError(
                    f"{source.name} has no feature {name!r}.",
                    where=f"{self.name}, label, weight",
                    hint=f"It has {', '.join(features)}. label = false leaves labels out."
                    if name == self._label
                    else f"It has {', '.join(features)}.",
                )
        names = getattr(features[self._label], "names", None) if self._label else None
        if names and self._labels and list(names) != self._labels:
            raise InputError(
                f"The classes of {source.name} are {', '.join(names)}.",
                where=f"{self.name}, labels",
                hint="Give them in this order, or leave labels out.",
            )

    def _rows(self, source: SourceVersion, split: str, wanted: Rows) -> Iterator[Row]:
        columns = [*self._texts, *filter(None, (self._weight,))]
        if self._label and split not in self._unlabeled:
            columns.append(self._label)
        skipped = None if split in self._unlabeled else self._skipped
        file = source.files[wanted.file][0]
        for _, examples in source.read([wanted], columns):
            for number, each in enumerate(examples, wanted.start):
                row = self._row(each, split, f"{file}, example {number}")
                if skipped is None or row.label != skipped:
                    yield row

    @functools.cached_property
    def _skipped(self) -> int | None:
        """The class whose examples are left out.

        Raises:
            SettingsError: there is no such class.
        """
        if not isinstance(self._skip, str):
            return self._skip
        names = self._labels or self._labels_of_source()
        if self._skip in names:
            return names.index(self._skip)
        raise SettingsError(
            f"skip_label is {self._skip!r}, which is no class.",
            where=f"{self.name}, skip_label",
            hint=f"Classes are {', '.join(names)}." if names else "Name them: labels = [...].",
        )

    def _row(self, found: Mapping[str, Any], split: str, place: str) -> Row:
        texts = tuple(_text(found[name]) for name in self._texts)
        weight = float(found[self._weight]) if self._weight else None
        label: int | float | None = None
        if self._label:
            label = 0 if split in self._unlabeled else self._class(found[self._label], split, place)
        return Row(texts, label, weight)

    def _class(self, value: Any, split: str, place: str) -> int | float:
        if self._regression:
            return float(value)
        if isinstance(value, (bytes, str)):
            name = _text(value)
            if name in self._labels:
                return self._labels.index(name)
            known = ", ".join(self._labels) or "none"
            message, hint = f"is {name!r}, which is no class", f"labels names {known}."
        elif int(value) >= 0:
            return int(value)
        else:
            message = f"is {int(value)}: it is not known"
            hint = f'unlabeled = ["{split}"] gives all of the split 0.'
        raise InputError(f"A label of {split} {message}.", where=f"{self.name}, {place}", hint=hint)


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
