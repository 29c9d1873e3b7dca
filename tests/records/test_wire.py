"""The encoder against TFDS's own: the same bytes, the same refusals."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provender.errors import BuilderError, ExampleError
from provender.records import check_features, compile_encoder

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-300, 300),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.sampled_from(["3", "yes", b"yes", " 7 ", "é\ud800"]),
    st.sampled_from([kind(3) for kind in [*INTEGERS, *FLOATS, np.bool_, np.str_]]),
    st.lists(st.integers(-5, 300), max_size=4),
    st.lists(st.one_of(st.text(max_size=3), st.binary(max_size=3)), max_size=4),
    st.lists(st.floats(), max_size=4),
    st.sampled_from([np.arange(3, dtype=kind) for kind in [*INTEGERS, *FLOATS]]),
    st.sampled_from([np.array(3), np.array("x"), np.array([], np.int64), (1, 2), {}, [[1], []]]),
)


def outcome(run: Any) -> bytes | None:
    """The bytes, or None where the value is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return bytes(run())
        except Exception:
            return None


def assert_same(features: Any, example: Any) -> None:
    expected = outcome(lambda: features.serialize_example(example))
    encode = compile_encoder(features)
    ours = outcome(lambda: encode(example))
    assert ours == expected, f"{example!r}: {ours!r} instead of {expected!r}"
    if expected is None:
        with warnings.catch_warnings(), pytest.raises(ExampleError):
            warnings.simplefilter("ignore")
            encode(example)


@pytest.fixture(scope="module")
def schemas(tfds: Any) -> dict[str, Any]:
    f = tfds.features
    found = {np.dtype(kind).name: kind for kind in [*INTEGERS, *FLOATS, np.bool_]}
    found |= {f"seq_{name}": f.Sequence(kind) for name, kind in found.items()}
    found |= {
        "text": f.Text(),
        "string": np.str_,
        "label": f.ClassLabel(num_classes=10),
        "named": f.ClassLabel(names=["no", "yes"]),
        "optional": f.Text(optional=True),
        "optional_int": f.Scalar(np.int32, optional=True),
        "tensor": f.Tensor(shape=(None,), dtype=np.int32),
        "fixed": f.Tensor(shape=(3,), dtype=np.float32),
        "strings": f.Tensor(shape=(None,), dtype=np.str_),
        "bytes": f.Tensor(shape=(3,), dtype=np.uint8, encoding="bytes"),
        "texts": f.Sequence(f.Text()),
        "two": f.Sequence(np.int64, length=2),
        "labels": f.Sequence(f.ClassLabel(num_classes=10)),
        "ragged": f.Sequence(f.Sequence(np.int64)),
        "dict": {"a": np.int64},
    }
    return {name: f.FeaturesDict({"before": f.Text(), name: kind}) for name, kind in found.items()}


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_value_for_any_feature(schemas: Any, data: Any) -> None:
    name = data.draw(st.sampled_from(sorted(schemas)))
    assert_same(schemas[name], {"before": "x", name: data.draw(ANYTHING)})


@settings(max_examples=200, deadline=None)
@given(
    example=st.fixed_dictionaries(
        {
            "text": st.one_of(st.text(max_size=300), st.binary(max_size=9000)),
            "label": st.integers(-1, 9),
            "number": st.integers(-(2**63), 2**63 - 1),
            "big": st.integers(0, 2**64 - 1),
            "real": st.floats(width=32),
            "numbers": st.lists(st.integers(-(2**63), 2**63 - 1)),
            "reals": st.lists(st.floats(allow_nan=True)),
            "words": st.lists(st.text(max_size=8)),
            "bits": st.lists(st.booleans()),
            "inner": st.fixed_dictionaries({"x": st.text(), "y": st.booleans()}),
        }
    )
)
def test_usual_values(tfds: Any, example: Any) -> None:
    f = tfds.features
    features = f.FeaturesDict(
        {
            "text": f.Text(),
            "label": f.ClassLabel(num_classes=10),
            "number": np.int64,
            "big": np.uint64,
            "real": np.float32,
            "numbers": f.Sequence(np.int64),
            "reals": f.Sequence(np.float64),
            "words": f.Sequence(f.Text()),
            "bits": f.Sequence(np.bool_),
            "inner": {"x": f.Text(), "y": np.bool_},
        }
    )
    assert_same(features, example)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, np.bool_])
def test_extreme_values_of_each_dtype(tfds: Any, dtype: Any) -> None:
    f = tfds.features
    features = f.FeaturesDict(
        {"one": dtype, "many": f.Tensor(shape=(None,), dtype=dtype), "listed": f.Sequence(dtype)}
    )
    kind = np.dtype(dtype).kind
    if kind == "f":
        limits = np.finfo(dtype)
        values = [limits.min, limits.max, limits.tiny, 0.0, -0.0, math.inf, -math.inf, math.nan]
    elif kind == "b":
        values = [True, False]
    else:
        values = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 127]
    for value in values:
        plain = np.dtype(dtype).type(value)
        array = np.array([plain, plain])
        for one in (plain, plain.item()):
            for listed in ([one, one], array):
                assert_same(features, {"one": one, "many": array, "listed": listed})


def test_signalling_nan_is_stored_as_protobuf_stores_it(tfds: Any) -> None:
    f = tfds.features
    features = f.FeaturesDict({"x": f.Tensor(shape=(None,), dtype=np.float32)})
    values = np.array([0x7FA00001, 0xFFA00001, 0x7FC00001], np.uint32).view(np.float32)
    assert_same(features, {"x": values})


@pytest.mark.parametrize(
    "example",
    [
        {"text": "a"},
        {"text": "a", "label": 1, "more": 2},
        {"text": "a", "Label": 1},
        {},
        None,
        [("text", "a"), ("label", 1)],
        {"text": None, "label": 1},
        {"text": "a", "label": 10},
        {"text": "a", "label": "ten"},
        {"text": "a", "label": True},
        {"text": "a", "label": 1.0},
    ],
)
def test_examples_of_the_wrong_form(tfds: Any, example: Any) -> None:
    f = tfds.features
    features = f.FeaturesDict({"text": f.Text(), "label": f.ClassLabel(num_classes=10)})
    assert_same(features, example)


def test_a_refusal_names_the_feature_and_the_value(tfds: Any) -> None:
    f = tfds.features
    features = f.FeaturesDict({"text": f.Text(), "label": f.ClassLabel(names=["no", "yes"])})
    with pytest.raises(ExampleError, match=r"'label'.*'perhaps'") as caught:
        compile_encoder(features)({"text": "x", "label": "perhaps"})
    assert caught.value.facts["feature"] == "label"
    with pytest.raises(ExampleError, match="'text' cannot hold None"):
        compile_encoder(features)({"text": None, "label": 0})
    with pytest.raises(ExampleError, match=r"missing \['label'\]"):
        compile_encoder(features)({"text": "x"})


def test_an_open_file_is_read_once(tfds: Any) -> None:
    """The second feature is unusual; had the first been encoded before, its file would be empty."""
    import io

    f = tfds.features
    features = f.FeaturesDict({"image": f.Image(), "label": f.ClassLabel(num_classes=3)})
    encode = compile_encoder(features)
    assert b"pixels" in encode({"image": io.BytesIO(b"pixels"), "label": np.int64(2)})
    assert b"pixels" in encode({"image": io.BytesIO(b"pixels"), "label": "2"})


def test_schemas_that_tf_example_cannot_hold(tfds: Any) -> None:
    import ml_dtypes

    f = tfds.features
    good = {"text": f.Text()}
    for name, bad in {
        "bf": f.Tensor(shape=(2,), dtype=ml_dtypes.bfloat16),
        "complex": np.complex64,
        "nolabels": f.ClassLabel(),
        "square": f.Tensor(shape=(None, None), dtype=np.int64),
        "maybe": f.Tensor(shape=(None,), dtype=np.int64, optional=True),
    }.items():
        with pytest.raises(BuilderError, match=name):
            check_features(f.FeaturesDict(good | {name: bad}))
    check_features(f.FeaturesDict(good))


NAMES = st.sampled_from(["a", "ab", "a/b", "a/", "a b", "é", "é2", "ragged", "A", "zz", "num"])


@settings(max_examples=150, deadline=None)
@given(names=st.lists(NAMES, min_size=1, unique=True), data=st.data())
def test_any_names_in_any_order(tfds: Any, names: list[str], data: Any) -> None:
    """Names that begin with each other, hold slashes, or meet the parts of a nested feature."""
    f = tfds.features
    kinds = {
        "number": (np.int64, 5),
        "text": (f.Text(), "x"),
        "dict": ({"b": np.int64, "bc": f.Text()}, {"b": 1, "bc": "y"}),
        "boxes": (f.Sequence({"b": np.int64, "c": f.Text()}), [{"b": 1, "c": "z"}] * 2),
        "ragged": (f.Sequence(f.Sequence(np.int64)), [[1, 2], [], [3]]),
        "dynamic": (
            f.Tensor(shape=(None, None), dtype=np.uint8, encoding="bytes"),
            np.ones((2, 3), np.uint8),
        ),
    }
    chosen = {name: kinds[data.draw(st.sampled_from(sorted(kinds)))] for name in names}
    features = f.FeaturesDict({name: kind for name, (kind, _) in chosen.items()})
    example = {name: value for name, (_, value) in chosen.items()}
    if outcome(lambda: features.serialize_example(example)) is None:
        with pytest.raises(BuilderError):
            compile_encoder(features)
    else:
        assert_same(features, example)


def test_only_the_unusual_feature_pays(tfds: Any) -> None:
    """A ragged feature beside plain ones does not send the whole schema to the slow path."""
    f = tfds.features
    features = f.FeaturesDict({"text": f.Text(), "ragged": f.Sequence(f.Sequence(np.int64))})
    with pytest.MonkeyPatch.context() as patch:
        encode = compile_encoder(features)
        patch.setattr(f.FeaturesDict, "encode_example", lambda *_: pytest.fail("slow path"))
        assert encode({"text": "a", "ragged": [[1], [2, 3]]})
