"""`ExampleReader`: records of a version as tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from provender.data.errors import FeatureTypeError, unknown_column
from provender.data.examples.assembly import build, leaves_of, names_of
from provender.data.examples.scanning import layout_of, read, scan
from provender.data.examples.stored import Stored, from_parsed, nothing
from provender.data.features.features import Features
from provender.data.features.tfds import Leaf, Rows, Tree, _Pairs, feature_of_tree, tree_of
from provender.data.features.types import Value
from provender.errors import DamageError
from provender.training.wire import parse_example

AT_ONCE = 16_384
"""Records read in lockstep: enough to spread numpy's cost per operation, few enough for the cache."""

BYTES_AT_ONCE = 512 << 20
"""Bytes that the records read in lockstep may span; Arrow's binary arrays hold up to 2 GiB."""

_LAYOUTS = 12


class ExampleReader:
    """Reads serialized tf.Examples of one version.

    Args:
        features_json: features.json as a document.
        labels: stem of a ``*.labels.txt`` file -> class names.
        as_bytes: names of Text features to be read as bytes, for texts that are not UTF-8.

    Attributes:
        features: the columns of the tables.

    Raises:
        FeatureTypeError: a feature of a kind that only TFDS can read.
    """

    def __init__(
        self,
        features_json: Mapping[str, Any],
        labels: Mapping[str, Sequence[str]],
        *,
        as_bytes: Collection[str] = (),
    ) -> None:
        tree = tree_of(features_json, labels)
        for name in as_bytes:
            if name not in {leaf.name for leaf in leaves_of(tree) if leaf.kind == "text"}:
                raise unknown_column(name, [leaf.name for leaf in leaves_of(tree)], "as_bytes")
        self._set({name: _with_bytes(each, as_bytes) for name, each in tree.items()})

    def _set(self, tree: Mapping[str, Tree]) -> None:
        self._tree = dict(tree)
        self.features = Features({name: feature_of_tree(each) for name, each in tree.items()})
        self._schema = self.features.arrow_schema
        self._names = [name for leaf in leaves_of(self._tree) for name in names_of(leaf)]
        self._wanted = {name.encode("utf-8") for name in self._names}

    def columns(self, names: Sequence[str]) -> ExampleReader:
        """A reader of some columns; the others are passed over.

        Raises:
            ColumnError: there is no such column.
        """
        for name in names:
            if name not in self._tree:
                raise unknown_column(name, self._tree)
        made = object.__new__(ExampleReader)
        made._set({name: self._tree[name] for name in names})
        return made

    def table(self, records: Sequence[bytes]) -> pa.Table:
        """A table of serialized examples.

        Args:
            records: payloads of TFRecords.

        Raises:
            DamageError: a record is not an example, or not of these features; ``facts['record']``
                is its index.
            FeatureTypeError: a text is not UTF-8.
        """
        lengths = np.fromiter(map(len, records), np.int64, len(records))
        starts = np.cumsum(lengths) - lengths
        return self.table_from_buffer(b"".join(records), starts, lengths)

    def table_from_buffer(
        self, data: bytes | memoryview | np.ndarray, starts: np.ndarray, lengths: np.ndarray
    ) -> pa.Table:
        """A table of examples that lie in one buffer.

        Args:
            data: the bytes.
            starts: where each payload begins, in any order.
            lengths: bytes of each payload.

        Raises:
            DamageError, FeatureTypeError: as `table`.
        """
        flat = np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)
        begin = np.asarray(starts, np.int64)
        ends = begin + np.asarray(lengths, np.int64)
        if len(begin) and (int(ends.max()) > len(flat) or int(begin.min()) < 0):
            raise DamageError(
                f"Records up to byte {int(ends.max()):,} were asked for, the buffer has "
                f"{len(flat):,}."
            )
        if len(begin) > 1 and (begin[1:] < ends[:-1]).any():
            order = np.argsort(begin, kind="stable")
            table = self._in_order(flat, begin[order], ends[order], order)
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            return table.take(pa.array(back))
        return self._in_order(flat, begin, ends, None)

    def _in_order(
        self, flat: np.ndarray, starts: np.ndarray, ends: np.ndarray, numbers: np.ndarray | None
    ) -> pa.Table:
        tables = []
        at, count = 0, len(starts)
        while at < count:
            far = int(np.searchsorted(ends, starts[at] + BYTES_AT_ONCE, "right"))
            stop = min(at + AT_ONCE, max(far, at + 1), count)
            low, high = int(starts[at]), int(ends[stop - 1])
            part = flat[low:high]
            batch = slice(at, stop)
            first = np.arange(at, stop) if numbers is None else numbers[batch]
            tables.append(self._chunk(part, starts[batch] - low, ends[batch] - low, first))
            at = stop
        if not tables:
            return self._schema.empty_table()
        return pa.concat_tables(tables) if len(tables) > 1 else tables[0]

    def _chunk(
        self, flat: np.ndarray, starts: np.ndarray, ends: np.ndarray, numbers: np.ndarray
    ) -> pa.Table:
        """Records by their layout, then those that are left one by one."""
        left = np.arange(len(starts))
        rows: list[np.ndarray] = []
        tables: list[pa.Table] = []
        for _ in range(_LAYOUTS):
            if not left.size:
                break
            first = flat[starts[left[0]] : ends[left[0]]].tobytes()
            layout = layout_of(first)
            if layout is None:
                break
            fits, regions = scan(flat, starts[left], ends[left], layout, self._wanted)
            if not fits.any():
                break
            chosen = left[fits]
            try:
                made = self._assembled(read(flat, regions, layout, fits), len(chosen))
            except (DamageError, FeatureTypeError):
                # Which record is at fault is found by parsing them one by one.
                break
            rows.append(chosen)
            tables.append(made)
            left = left[~fits]
        if left.size:
            rows.append(left)
            tables.append(self._slow(flat, starts[left], ends[left], numbers[left]))
        if not tables:
            return self._schema.empty_table()
        if len(tables) == 1:
            return tables[0]
        order = np.concatenate(rows)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(tables).take(pa.array(back))

    def _slow(
        self, flat: np.ndarray, starts: np.ndarray, ends: np.ndarray, numbers: np.ndarray
    ) -> pa.Table:
        examples = []
        for start, end, number in zip(
            starts.tolist(), ends.tolist(), numbers.tolist(), strict=True
        ):
            try:
                examples.append(parse_example(flat[start:end].tobytes()))
            except DamageError as error:
                error.facts["record"] = number
                raise
        try:
            return self._parsed(examples)
        except (DamageError, FeatureTypeError):
            for example, number in zip(examples, numbers.tolist(), strict=True):
                try:
                    self._parsed([example])
                except (DamageError, FeatureTypeError) as error:
                    error.facts["record"] = number
                    error.where = f"{error.where or 'example'}, record {number:,}"
                    raise
            raise

    def _parsed(self, examples: Sequence[dict[str, Any]]) -> pa.Table:
        stored = {name: from_parsed(name, examples) for name in self._names}
        return self._assembled(stored, len(examples))

    def _assembled(self, stored: Mapping[str, Stored], count: int) -> pa.Table:
        def get(name: str) -> Stored:
            found = stored.get(name)
            return nothing(count) if found is None else found

        arrays = [build(each, get, count) for each in self._tree.values()]
        return pa.Table.from_arrays(arrays, schema=self._schema)


def _with_bytes(tree: Tree, names: Collection[str]) -> Tree:
    """The tree with some texts as bytes."""
    if isinstance(tree, Leaf):
        if tree.name not in names:
            return tree
        return dataclasses.replace(tree, kind="bytes", feature=Value("binary"))
    if isinstance(tree, Rows | _Pairs):
        fields = {name: _with_bytes(each, names) for name, each in tree.fields.items()}
        return dataclasses.replace(tree, fields=fields)
    return {name: _with_bytes(each, names) for name, each in tree.items()}
