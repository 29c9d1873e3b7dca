"""Columns of class labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from provender.data.dataset.bounds import names_of
from provender.data.dataset.columns import Columns
from provender.data.errors import FeatureTypeError


class Labels(Columns):
    """Making class labels, and giving them other numbers."""

    def class_encode_column(self, column: str, include_nulls: bool = False) -> Self:
        """The dataset with a column as class labels, named by its values in sorted order.

        Args:
            column: a column of texts, numbers, bools ...
            include_nulls: make a class "None" of missing values; otherwise they stay missing.

        Raises:
            ColumnError: there is no such column.
            FeatureTypeError: the column holds lists, dicts or the like.
        """
        import pyarrow.compute as pc

        from provender.data.features import ClassLabel, Value

        names_of(column, self._features, "column")
        feature = self._features[column]
        if not isinstance(feature, Value):
            raise FeatureTypeError(
                f"Column {column!r} holds {feature!r}; classes are made of plain values.",
                where="column",
                hint="Give a column of texts, numbers or bools.",
                facts={"column": column},
            )
        values = self._whole([column]).column(0)
        different = pc.unique(values)
        texts = [str(each) for each in different.to_pylist() if include_nulls or each is not None]
        label = ClassLabel(names=sorted(set(texts)))
        number = {name: at for at, name in enumerate(label.names)}
        numbers = pa.array(
            [
                None if each is None and not include_nulls else number[str(each)]
                for each in different.to_pylist()
            ],
            pa.int64(),
        )
        # Rows that the dataset does not have may hold other values: those become missing.
        places = pc.index_in(self._data.column(column), value_set=different)
        encoded = numbers.take(places.combine_chunks())
        features = self._new_features({**self._features, column: label})
        at = self._data.schema.get_field_index(column)
        return self._derive(
            self._print.then("class_encode_column 1", column=column, include_nulls=include_nulls),
            table=self._data.set_column(at, column, encoded),
            features=features,
        )

    def align_labels_with_mapping(self, label2id: Mapping[str, int], label_column: str) -> Self:
        """The dataset with class labels renumbered as a model has them.

        Args:
            label2id: name -> number; names are compared in lower case.
            label_column: a column of class labels, or of lists of them.

        Raises:
            ColumnError: there is no such column.
            FeatureTypeError: it does not hold class labels, or a class has no number.
        """
        from provender.data.features import ClassLabel, LargeList, List, type_of

        names_of(label_column, self._features, "label_column")
        feature = self._features[label_column]
        inner = feature.feature if isinstance(feature, List | LargeList) else feature
        if not isinstance(inner, ClassLabel):
            raise FeatureTypeError(
                f"Column {label_column!r} holds {feature!r}, not class labels.",
                where="label_column",
                hint=f"First: ds = ds.class_encode_column({label_column!r})",
            )
        wanted = {str(name).lower(): int(number) for name, number in label2id.items()}
        missing = [name for name in inner.names if name.lower() not in wanted]
        if missing:
            raise FeatureTypeError(
                f"The mapping has no number for the class {missing[0]!r}.",
                where="label2id",
                hint=f"Name every class: {', '.join(inner.names)}.",
                facts={"missing": missing},
            )
        ordered = sorted(label2id.items(), key=lambda each: each[1])
        new = ClassLabel(names=[str(name) for name, _ in ordered])
        table = np.array([wanted[name.lower()] for name in inner.names], np.int64)

        def renumbered(array: pa.Array) -> pa.Array:
            numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
            made = np.where(numbers < 0, numbers, table[np.maximum(numbers, 0)])
            return pa.array(made, pa.int64(), mask=np.asarray(array.is_null()))

        chunks = []
        for chunk in self._data.column(label_column).chunks:
            if inner is feature:
                chunks.append(renumbered(chunk))
                continue
            ends = np.concatenate([[0], np.cumsum(np.asarray(chunk.value_lengths().fill_null(0)))])
            kind: Any = type_of(feature)
            lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
            if pa.types.is_fixed_size_list(kind):
                kind = pa.list_(pa.int64())
            offsets = pa.array(ends, pa.int64() if lists is pa.LargeListArray else pa.int32())
            mask = chunk.is_null() if chunk.null_count else None
            made = lists.from_arrays(offsets, renumbered(chunk.flatten()), mask=mask)
            chunks.append(made.cast(type_of(feature)))
        kept: Any = new
        if inner is not feature:
            kept = (
                type(feature)(new, feature.length)
                if isinstance(feature, List)
                else type(feature)(new)
            )
        features = self._new_features({**self._features, label_column: kept})
        at = self._data.schema.get_field_index(label_column)
        column = pa.chunked_array(chunks, type=type_of(feature))
        return self._derive(
            self._print.then("align_labels 1", column=label_column, mapping=dict(wanted)),
            table=self._data.set_column(at, label_column, column),
            features=features,
        )
