"""The same rows whatever they are read from and however they are parsed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

from provender.nlp import loaders
from provender.nlp.registry import get_data_loader

SHORT = {
    "seq_length": records.SEQ,
    "global_batch_size": 8,
    "is_training": False,
    "drop_remainder": False,
}
FILES = {
    "BertPretrainDataConfig": ("pretraining", {"max_predictions_per_seq": records.SLOTS}),
    "SentencePredictionDataConfig": ("labelled", {"label_name": ["label_ids", "y"]}),
    "TaggingDataConfig": ("tagged", {"include_sentence_id": True}),
    "QADataConfig": ("labelled", {"xlnet_format": True}),
}
PAIR = {
    **SHORT,
    "text_fields": ["premise", "hypothesis"],
    "vocab_file": "@vocabulary",
}


def params_of(config: str, files: Files, **options: Any) -> Any:
    named = {
        key: getattr(files, value[1:]) if isinstance(value, str) and value[:1] == "@" else value
        for key, value in options.items()
    }
    return getattr(loaders, config)().override(named)


def arrays(data: Any) -> list[np.ndarray]:
    """The concatenated leaves of all batches."""
    batches = [tf.nest.flatten(batch) for batch in data.as_numpy_iterator()]
    return [np.concatenate(each) for each in zip(*batches, strict=True)]


@pytest.mark.parametrize("config", FILES)
def test_rows_are_the_same_where_single_records_have_to_be_seen(config: str, files: Files) -> None:
    file, options = FILES[config]
    params = params_of(config, files, **SHORT, **options, input_path=f"@{file}")
    loader = get_data_loader(params)

    class Filtered(type(loader)):  # type: ignore[misc]
        seen = 0

        def record_filter(self) -> Any:
            def keep(*row: Any) -> Any:
                assert all(each.shape.rank <= 1 for each in tf.nest.flatten(row))
                Filtered.seen += 1
                return True

            return keep

    whole, single = arrays(loader.load()), arrays(Filtered(params).load())
    assert Filtered.seen > 0
    assert len(whole[0]) == records.ROWS
    for one, other in zip(whole, single, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ("SentencePredictionTextDataConfig", PAIR),
        ("DualEncoderDataConfig", {**SHORT, "vocab_file": "@vocabulary"}),
    ],
)
def test_rows_do_not_depend_on_the_batch_they_are_in(
    config: str, options: dict[str, Any], files: Files
) -> None:
    options = {**options, "input_path": "@texts"}
    whole = arrays(get_data_loader(params_of(config, files, **options)).load())
    single = arrays(
        get_data_loader(params_of(config, files, **{**options, "global_batch_size": 1})).load()
    )
    for one, other in zip(whole, single, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_mixture_keeps_to_its_weights(files: Files, tmp_path: Path) -> None:
    rows = records.tagged(30)
    zeros = records.write(tmp_path / "zeros", [{**row, "sentence_id": 0} for row in rows])
    ones = records.write(tmp_path / "ones", [{**row, "sentence_id": 1} for row in rows])
    params = params_of(
        "TaggingDataConfig",
        files,
        **{**SHORT, "is_training": True, "global_batch_size": 40},
        include_sentence_id=True,
        input_path={"zeros": zeros, "ones": ones},
        weights={"zeros": 3, "ones": 1},
    )
    inputs, _ = next(iter(get_data_loader(params).load()))
    assert int(tf.reduce_sum(inputs["sentence_id"])) == 10


def test_text_loaders_take_mixtures(files: Files) -> None:
    for config, options in (
        ("SentencePredictionTextDataConfig", PAIR),
        (
            "BertPretrainTextDataConfig",
            {**SHORT, "vocab_file_path": "@vocabulary", "max_predictions_per_seq": 4},
        ),
    ):
        params = params_of(config, files, **options).override(
            {"input_path": {"a": files.texts, "b": files.texts}, "weights": {"a": 1, "b": 1}}
        )
        assert next(iter(get_data_loader(params).load()))["input_mask"].shape[0] > 0


@pytest.fixture(scope="module")
def tfds_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS data set of the texts."""
    import tensorflow_datasets as tfds

    class LoaderTexts(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            names = ("text", "premise", "hypothesis", "left_input", "right_input", "en", "de")
            return self.dataset_info_from_configs(
                features=tfds.features.FeaturesDict(
                    {
                        **{name: tfds.features.Text() for name in names},
                        "label": tfds.features.ClassLabel(num_classes=3),
                        "score": np.float32,
                    }
                )
            )

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            for index, row in enumerate(records.texts()):
                names = self.info.features.keys()
                yield index, {name: row[name] for name in names}

    folder = str(tmp_path_factory.mktemp("tfds"))
    LoaderTexts(data_dir=folder).download_and_prepare()
    return folder


def test_tfds_gives_the_rows_of_files_and_hands_the_rest_on(files: Files, tfds_folder: str) -> None:
    given = params_of(
        "SentencePredictionTextDataConfig",
        files,
        **PAIR,
        tfds_name="loader_texts",
        tfds_split="train",
        tfds_data_dir=tfds_folder,
    )
    loader = get_data_loader(given)
    data = loader.load()
    declared = loader.element_spec()
    assert data.element_spec.keys() == declared.keys()
    assert {"label", "score", "en", "de"} < declared.keys() and "premise" not in declared
    for name, spec in declared.items():
        assert spec.is_compatible_with(data.element_spec[name]), name
    found = {
        name: np.concatenate([each[name] for each in data.as_numpy_iterator()])
        for name in ("input_word_ids", "label", "score")
    }
    assert found["label"].dtype == np.int32
    file = get_data_loader(
        params_of("SentencePredictionTextDataConfig", files, **PAIR, input_path="@texts")
    )
    expected = np.concatenate([each["input_word_ids"] for each in file.load().as_numpy_iterator()])
    # TFDS keeps its own order.
    assert sorted(map(bytes, found["input_word_ids"])) == sorted(map(bytes, expected))


@pytest.mark.parametrize(
    ("config", "options", "name"),
    [
        ("DualEncoderDataConfig", {"vocab_file": "@vocabulary"}, "left_word_ids"),
        (
            "BertPretrainTextDataConfig",
            {"vocab_file_path": "@vocabulary", "max_predictions_per_seq": 4},
            "input_word_ids",
        ),
        (
            "WMTDataConfig",
            {
                "src_lang": "en",
                "tgt_lang": "de",
                "sentencepiece_model_path": "@sentencepiece",
                "static_batch": True,
            },
            "inputs",
        ),
    ],
)
def test_the_other_text_loaders_read_tfds(
    config: str, options: dict[str, Any], name: str, files: Files, tfds_folder: str
) -> None:
    source = {
        "tfds_name": "loader_texts",
        "tfds_split": "train",
        "tfds_data_dir": tfds_folder,
    }
    common = {**SHORT, **options, **source}
    if config == "WMTDataConfig":
        common.pop("seq_length")
    loader = get_data_loader(params_of(config, files, **common))
    data = loader.load()
    assert loader.element_spec().keys() == data.element_spec.keys()
    assert sum(len(batch[name]) for batch in data.as_numpy_iterator()) >= records.ROWS


def test_a_text_field_that_tfds_does_not_have_is_named(files: Files, tfds_folder: str) -> None:
    params = params_of(
        "SentencePredictionTextDataConfig",
        files,
        **{**PAIR, "text_fields": ["premiss"]},
        tfds_name="loader_texts",
        tfds_split="train",
        tfds_data_dir=tfds_folder,
    )
    with pytest.raises(Exception, match="no text feature 'premiss'"):
        get_data_loader(params).load()


@pytest.fixture(scope="module")
def service() -> Any:
    """A tf.data service with one worker, in this process."""
    made = tf.data.experimental.service
    dispatcher = made.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = made.WorkerServer(made.WorkerConfig(dispatcher_address=address))
    yield dispatcher.target
    # In this order: a server that ends later than what it serves is a race at the process's end.
    worker._stop()
    dispatcher._stop()


@pytest.mark.parametrize(
    ("config", "options", "name"),
    [
        ("SentencePredictionTextDataConfig", PAIR, "input_word_ids"),
        (
            "WMTDataConfig",
            {
                "global_batch_size": 100,
                "is_training": False,
                "drop_remainder": False,
                "src_lang": "en",
                "tgt_lang": "de",
                "sentencepiece_model_path": "@sentencepiece",
            },
            "inputs",
        ),
        pytest.param(
            "BertPretrainTextDataConfig",
            {**SHORT, "vocab_file_path": "@vocabulary", "seed": 1},
            "input_word_ids",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_tokenizers_work_in_the_workers_of_a_service(
    config: str, options: dict[str, Any], name: str, files: Files, service: str
) -> None:
    plain = params_of(config, files, **options, input_path="@texts")
    served = plain.replace(
        enable_tf_data_service=True,
        tf_data_service_address=service,
        tf_data_service_job_name=config,
    )
    context = tf.distribute.InputContext(1, 0, 1)
    rows = {
        kind: sorted(
            json.dumps(row[row != 0].tolist())
            for batch in get_data_loader(params).load(context).as_numpy_iterator()
            for row in batch[name]
        )
        for kind, params in (("here", plain), ("served", served))
    }
    assert rows["here"] and rows["here"] == rows["served"]
