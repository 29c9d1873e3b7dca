"""Digits: what is stored decodes to what scikit-learn ships, with the same bytes everywhere."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from provender.builders._png import encode_grey
from provender.builders.digits import TRAIN_ROWS, Digits

ROWS = 1797


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, dict]]:
    builder = Digits(data_dir=tmp_path_factory.mktemp("data"))
    return {split: dict(each) for split, each in builder._split_generators(None).items()}


def test_splits_are_the_source_in_its_order(examples: dict[str, dict[int, dict]]) -> None:
    assert list(examples["train"]) == list(range(TRAIN_ROWS))
    assert list(examples["test"]) == list(range(TRAIN_ROWS, ROWS))
    labels = [each["label"] for split in ("train", "test") for each in examples[split].values()]
    assert labels == load_digits().target.tolist()
    assert {type(label) for label in labels} == {int}


def test_every_digit_is_in_both_splits(examples: dict[str, dict[int, dict]]) -> None:
    for split in examples.values():
        assert {each["label"] for each in split.values()} == set(range(10))


def test_bytes_never_change(examples: dict[str, dict[int, dict]]) -> None:
    digest = hashlib.sha256()
    for split in ("train", "test"):
        for each in examples[split].values():
            digest.update(each["image"])
    assert digest.hexdigest() == "82be77aa2939271dc94b902b92ae6b4a97fb35c81a82d06c5b7da467be0b10b3"


def test_a_version_reads_back_as_the_arrays_of_the_source(tmp_path: Path) -> None:
    class Offline(Digits, skip_registration=True):
        name = "digits"
        url_infos = None

    builder = Offline(data_dir=tmp_path)
    builder.download_and_prepare()
    source = load_digits()
    rows = {"train": slice(0, TRAIN_ROWS), "test": slice(TRAIN_ROWS, None)}
    for split, part in rows.items():
        read = list(tfds.as_numpy(builder.as_dataset(split=split, as_supervised=True)))
        images = np.stack([image for image, _ in read])
        assert images.shape[1:] == (8, 8, 1)
        assert images.dtype == np.uint8
        # Shards are in the order of hashed keys; compare as multisets of (image, label).
        ink = np.round(images[..., 0] * (16 / 255)).astype(np.uint8)
        found = sorted(
            (one.tobytes(), int(label)) for one, (_, label) in zip(ink, read, strict=True)
        )
        expected = sorted(
            (one.tobytes(), int(label))
            for one, label in zip(
                source.images[part].astype(np.uint8), source.target[part], strict=True
            )
        )
        assert found == expected
        assert images.max() == 255
        assert images.min() == 0


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.randoms(use_true_random=False))
def test_any_grey_image_is_read_back_by_another_decoder(width: int, height: int, random) -> None:
    from PIL import Image

    pixels = random.randbytes(width * height)
    with Image.open(io.BytesIO(encode_grey(pixels, width, height))) as image:
        assert image.mode == "L"
        assert image.size == (width, height)
        assert image.tobytes() == pixels


def test_a_large_image_spans_stored_blocks() -> None:
    from PIL import Image

    pixels = bytes(range(256)) * 1024
    with Image.open(io.BytesIO(encode_grey(pixels, 512, 512))) as image:
        assert image.tobytes() == pixels


@pytest.mark.parametrize(("pixels", "width", "height"), [(b"abc", 2, 2), (b"", 0, 0), (b"", 0, 5)])
def test_pixels_that_do_not_fill_the_image_are_refused(
    pixels: bytes, width: int, height: int
) -> None:
    with pytest.raises(ValueError, match="do not fill"):
        encode_grey(pixels, width, height)


def test_shipped_builders_generate_and_serialize_without_tensorflow(tmp_path: Path) -> None:
    """In a process of its own, since the tests around it load TensorFlow."""
    demo = Path(__file__).parents[2] / "examples" / "xsum_demo" / "make_archive.py"
    program = f"""
import pathlib, runpy, sys
manual = pathlib.Path({str(tmp_path)!r})
runpy.run_path({str(demo)!r})["main"]([str(manual)])
from provender.builders.digits import Digits
from provender.builders.xsum import Xsum
class Downloads:
    manual_dir = manual
    def download(self, url):
        return manual / url
for builder in (Digits(data_dir=manual), Xsum(data_dir=manual, split_ids_url="xsum-demo-split-ids.json")):
    for generator in builder._split_generators(Downloads()).values():
        for key, example in generator:
            builder.info.features.serialize_example(example)
assert Xsum.check_manual(manual) == []
assert "tensorflow" not in sys.modules, "TensorFlow was imported"
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
