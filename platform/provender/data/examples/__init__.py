"""tf.Example records as Arrow tables, without TensorFlow, many records at a time.

    reader = ExampleReader(features_json, labels)
    table = reader.table(records)

The records of a version were written by one deterministic encoder, so nearly all of them hold the
same entries in the same order. That order is taken from a record, and all records that follow it
are read in lockstep: one cursor a record, moved over tags, lengths and keys by numpy operations
on all of them. Records that differ are grouped by their own order, and odd ones are parsed one by
one; the result is the same.
"""

from __future__ import annotations

from provender.data.examples.reader import ExampleReader

__all__ = ["ExampleReader"]
