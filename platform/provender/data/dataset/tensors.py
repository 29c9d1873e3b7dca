"""Datasets as `tf.data` pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from provender.data.dataset.access import Access
from provender.data.dataset.bounds import names_of
from provender.data.errors import ColumnError, FeatureTypeError
from provender.errors import InputError, SettingsError

_PROBES = 20


class Tensors(Access):
    """What TensorFlow reads."""

    def to_tf_dataset(
        self,
        batch_size: int | None = None,
        columns: str | Sequence[str] | None = None,
        shuffle: bool = False,
        collate_fn: Callable[..., Mapping[str, Any]] | None = None,
        drop_remainder: bool = False,
        collate_fn_args: Mapping[str, Any] | None = None,
        label_cols: str | Sequence[str] | None = None,
        prefetch: bool = True,
        num_workers: int = 0,
        num_test_batches: int = _PROBES,
    ) -> Any:
        """The dataset as a `tf.data.Dataset` for ``model.fit`` and the like.

        Elements are dicts of tensors; of a single column named by `columns` the tensor alone; with
        `label_cols` pairs of features and labels. Whole numbers become int64, fractions float32.

        Args:
            batch_size: rows of a batch; None for rows one by one.
            columns: columns that are features; all by default.
            shuffle: read in another random order each time.
            collate_fn: makes the dict of a batch from a list of row dicts, e.g. pads texts; by
                default values are stacked.
            drop_remainder: leave out a last batch that is smaller.
            collate_fn_args: more arguments for it.
            label_cols: columns that are labels.
            prefetch: read ahead in the background.
            num_workers: threads that read and collate batches ahead, in order.
            num_test_batches: how many rows are looked at to find out shapes.

        Raises:
            ColumnError: there is no such column.
            FeatureTypeError: a column cannot be a tensor.
            InputError: the dataset is empty.
        """
        import tensorflow as tf

        if len(self) == 0:
            raise InputError("An empty dataset has no shapes.", where="to_tf_dataset")
        labels = _listed(label_cols)
        chosen = _listed(columns)
        if labels and not chosen:
            raise SettingsError(
                "label_cols without columns leaves no features.",
                where="label_cols",
                hint="Name the features as well: columns=[...].",
            )
        if num_workers < 0:
            raise SettingsError("num_workers must be 0 or more.", where="num_workers")
        maker = _Batches(self, chosen, labels, collate_fn, dict(collate_fn_args or {}))
        sample = maker.probe(num_test_batches)
        wanted = [*chosen, *labels] or list(sample[0])
        for name in wanted:
            if name not in sample[0]:
                names_of(name, list(sample[0]), "columns")
        ragged = collate_fn is not None or batch_size is None
        signature = {
            name: _spec(tf, name, [each[name] for each in sample], ragged) for name in wanted
        }
        rows = len(self)

        def orders() -> Iterator[np.ndarray]:
            order = np.random.default_rng().permutation(rows) if shuffle else np.arange(rows)
            size = batch_size or 1024
            for start in range(0, rows, size):
                part = order[start : start + size]
                if batch_size and drop_remainder and len(part) < batch_size:
                    return
                yield part

        def load(part: Any) -> tuple[Any, ...]:
            if batch_size:
                made = maker.make(np.asarray(part))
                return tuple(_cast(made[name], signature[name], name) for name in wanted)
            each = [maker.make(np.asarray([row])) for row in part]
            return tuple(
                np.concatenate([_cast(one[name], signature[name], name) for one in each])
                for name in wanted
            )

        indices = tf.data.Dataset.from_generator(
            orders, output_signature=tf.TensorSpec([None], tf.int64)
        )

        def loaded(part: Any) -> dict[str, Any]:
            kinds = [signature[name].dtype for name in wanted]
            values = tf.numpy_function(load, [part], kinds, stateful=True)
            for name, value in zip(wanted, values, strict=True):
                size = batch_size if batch_size and drop_remainder else None
                value.set_shape([size, *signature[name].shape[1:]])
            return dict(zip(wanted, values, strict=True))

        workers = num_workers or 1
        made = indices.map(loaded, num_parallel_calls=workers, deterministic=True)
        if not batch_size:
            made = made.unbatch()
        if chosen:
            made = made.map(lambda batch: _split(batch, chosen, labels))
        return made.prefetch(tf.data.AUTOTUNE) if prefetch else made


class _Batches:
    """Dicts of arrays for row numbers."""

    def __init__(
        self,
        dataset: Tensors,
        columns: list[str],
        labels: list[str],
        collate: Callable[..., Mapping[str, Any]] | None,
        collate_args: dict[str, Any],
    ) -> None:
        self._collate = collate
        self._args = collate_args
        if dataset._format.type not in ("numpy", "custom"):
            dataset = dataset.with_format("numpy")
        if collate is None and (columns or labels):
            known = dataset._features
            if dataset._format.type != "custom":
                names_of([*columns, *labels], known, "columns")
                kept = list(dict.fromkeys([*columns, *labels]))
                dataset = dataset.with_format("numpy", columns=kept, **dict(dataset._format.kwargs))
        self._dataset = dataset

    def make(self, rows: np.ndarray) -> Mapping[str, Any]:
        """The batch of the rows of these numbers."""
        if self._collate is None:
            batch: Mapping[str, Any] = self._dataset[rows]
            return batch
        return self._collate(self._dataset.__getitems__(rows.tolist()), **self._args)

    def probe(self, count: int) -> list[Mapping[str, Any]]:
        """Batches of single rows from all over the dataset."""
        rows = np.unique(np.linspace(0, len(self._dataset) - 1, max(count, 1)).astype(np.int64))
        return [self.make(np.asarray([row])) for row in rows]


def _listed(names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return []
    found = [names] if isinstance(names, str) else list(names)
    if len(set(found)) < len(found):
        raise ColumnError(f"A column is named twice: {', '.join(found)}.", where="columns")
    return found


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "numpy"):
        value = value.numpy()
    return value if isinstance(value, np.ndarray) else np.asarray(value)


def _spec(tf: Any, name: str, values: Sequence[Any], ragged: bool) -> Any:
    arrays = [_array(value) for value in values]
    kind = arrays[0].dtype
    if kind.kind in "iub":
        dtype = tf.int64
    elif kind.kind == "f":
        dtype = tf.float32
    elif kind.kind in "US" or (kind.kind == "O" and isinstance(arrays[0].flat[0], str | bytes)):
        dtype = tf.string
    else:
        raise FeatureTypeError(
            f"Column {name!r} cannot be a tensor: its values are {kind}.",
            where=f"column {name!r}",
            hint="Leave it out (columns=[...]), or make arrays of it: map, or collate_fn.",
            facts={"column": name},
        )
    if len({array.ndim for array in arrays}) > 1:
        raise FeatureTypeError(
            f"Column {name!r} has rows of different rank.", where=f"column {name!r}"
        )
    if not ragged and len({array.shape[1:] for array in arrays}) > 1:
        raise _uneven(name)
    inner = zip(*(array.shape[1:] for array in arrays), strict=True)
    shape = [None, *(sizes[0] if len(set(sizes)) == 1 else None for sizes in inner)]
    return tf.TensorSpec(shape, dtype)


def _uneven(name: str) -> FeatureTypeError:
    return FeatureTypeError(
        f"Column {name!r} has rows of different length, which make no tensor together.",
        where=f"column {name!r}",
        hint="Pad them: in map, or with collate_fn=.",
        facts={"column": name},
    )


def _cast(value: Any, spec: Any, name: str) -> np.ndarray:
    array = _array(value)
    kind = spec.dtype.as_numpy_dtype
    if array.dtype.kind == "O" and array.size and isinstance(array.flat[0], np.ndarray | list):
        raise _uneven(name)
    if kind is np.bytes_ or array.dtype.kind in "USO":
        return np.asarray(
            [each.encode() if isinstance(each, str) else each for each in array.reshape(-1)],
            dtype=object,
        ).reshape(array.shape)
    return array.astype(kind)


def _split(batch: Mapping[str, Any], columns: Sequence[str], labels: Sequence[str]) -> Any:
    features: Any = {name: batch[name] for name in columns}
    wanted: Any = {name: batch[name] for name in labels}
    if len(columns) == 1:
        features = features[columns[0]]
    if not labels:
        return features
    return features, wanted[labels[0]] if len(labels) == 1 else wanted
