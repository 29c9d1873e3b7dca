"""Counting padding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from provender.nlp.packing.padding import Padding, padding_of


def test_padding_is_counted_by_the_mask_and_examples_by_rows_or_segments():
    plain = {"input_mask": np.array([[1, 1, 0, 0], [1, 0, 0, 0]])}
    packed = {"input_mask": np.array([[1, 1, 1, 0]]), "segment_ids": np.array([[1, 1, 2, 0]])}
    before, after = padding_of([plain]), padding_of([packed])
    assert before == Padding(examples=2, tokens=3, cells=8)
    assert after == Padding(examples=2, tokens=3, cells=4)
    assert before.share == pytest.approx(5 / 8)
    assert after.gain_over(before) == pytest.approx(2)


def test_nothing_has_no_padding():
    assert padding_of([]).share == 0
    assert Padding().gain_over(Padding(1, 1, 2)) == 0


def test_endless_data_is_counted_up_to_a_limit():
    batches = itertools.repeat({"input_mask": np.ones((2, 3))})
    assert padding_of(batches, limit=5) == Padding(10, 30, 30)
