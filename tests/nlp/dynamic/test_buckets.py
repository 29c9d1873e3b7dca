"""The arithmetic of buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.errors import SettingsError
from provender.nlp.dynamic.buckets import (
    Bucket,
    finer,
    plan_buckets,
    scaled_mask_slots,
    window_batches,
)

lengths = st.sets(st.integers(1, 600), min_size=1, max_size=8).map(lambda each: sorted(each))


def test_every_bucket_has_the_same_rows_without_a_budget():
    assert plan_buckets((128, 512), rows=4) == (Bucket(128, 4), Bucket(512, 4))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lengths": ()}, "seq_bucket_lengths is empty"),
        ({"lengths": (256, 128)}, "must be positive and ascend"),
        ({"lengths": (128, 128)}, "must be positive and ascend"),
        ({"lengths": (0, 128)}, "must be positive and ascend"),
        ({"rows": 0}, "would have 0 rows"),
        ({"tokens": 511}, "token budget is too small: 511 tokens"),
        ({"mask_slots": (20,)}, "1 numbers of mask slots for 2 buckets"),
        ({"mask_slots": (20, 10)}, "may not shrink"),
        ({"mask_slots": (0, 10)}, "must be positive"),
    ],
)
def test_what_cannot_work_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        plan_buckets(**{"lengths": (128, 512), "rows": 4} | change)


@given(lengths=lengths, tokens=st.integers(1, 5000))
def test_a_token_budget_is_filled_and_never_exceeded(lengths, tokens):
    if tokens < lengths[-1]:
        with pytest.raises(SettingsError):
            plan_buckets(lengths, rows=0, tokens=tokens)
        return
    for bucket in plan_buckets(lengths, rows=0, tokens=tokens):
        assert bucket.rows * bucket.length <= tokens < (bucket.rows + 1) * bucket.length


def test_scaled_slots_are_those_of_the_usual_buckets():
    assert scaled_mask_slots((128, 256, 384, 512), rate=0.15, most=76) == (20, 39, 58, 76)


@given(lengths=lengths, rate=st.floats(0.01, 1), most=st.integers(1, 100))
def test_scaled_slots_hold_every_mask_a_row_can_have(lengths, rate, most):
    slots = scaled_mask_slots(lengths, rate=rate, most=most)
    for longest, has in zip(lengths, slots, strict=True):
        needs = (min(most, max(1, round(rate * each))) for each in range(1, longest + 1))
        assert max(needs) <= has <= most
    plan_buckets(lengths, rows=1, mask_slots=slots)


@pytest.mark.parametrize(("rate", "most"), [(0, 76), (1.5, 76), (0.15, 0)])
def test_scales_that_make_no_sense_are_refused(rate, most):
    with pytest.raises(SettingsError):
        scaled_mask_slots((128,), rate=rate, most=most)


def test_only_a_first_come_service_widens_the_window():
    assert window_batches(4, scale=8, shared=False, round_robin=False) == 4
    assert window_batches(4, scale=8, shared=True, round_robin=True) == 4
    assert window_batches(4, scale=8, shared=True, round_robin=False) == 32
    with pytest.raises(SettingsError, match="seq_bucket_window_scale"):
        window_batches(4, scale=0, shared=False, round_robin=False)


@given(longest=st.integers(1, 2000), step=st.integers(1, 300))
def test_finer_buckets_reach_the_longest_and_lie_no_further_apart_than_asked(longest, step):
    made = finer(longest, step=step)
    assert made[-1] == longest
    assert all(0 < right - left <= step for left, right in zip((0, *made), made, strict=False))


def test_finer_refuses_a_step_of_nothing():
    with pytest.raises(SettingsError):
        finer(512, step=0)
