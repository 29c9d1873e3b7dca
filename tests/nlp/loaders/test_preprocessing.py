"""A preprocessing SavedModel in place of a vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

from provender.errors import InputError, MissingFiles, SettingsError
from provender.nlp import loaders
from provender.nlp.registry import get_data_loader


class Preprocessing(tf.Module):
    """Tokenizes with a table of its own, as published preprocessing models do."""

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.vocabulary = tf.saved_model.Asset(vocabulary)
        self.tokenizer = tensorflow_text.BertTokenizer(
            self.vocabulary.asset_path, token_out_type=tf.int32, lower_case=True
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(self, texts: Any) -> Any:
        return self.tokenizer.tokenize(texts).merge_dims(1, 2)

    @tf.function
    def bert_pack_inputs(self, inputs: Any, seq_length: int) -> dict[str, Any]:
        trimmed = tensorflow_text.RoundRobinTrimmer(seq_length - 3).trim(inputs)
        ids, types = tensorflow_text.combine_segments(trimmed, 2, 3)
        rows, mask = tensorflow_text.pad_model_inputs(ids, seq_length)
        types, _ = tensorflow_text.pad_model_inputs(types, seq_length)
        return {"input_word_ids": rows, "input_mask": mask, "input_type_ids": types}


@pytest.fixture(scope="module")
def model(files: Files, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("preprocessing"))
    made = Preprocessing(files.vocabulary)
    ragged = tf.RaggedTensorSpec([None, None], tf.int32)
    made.bert_pack_inputs.get_concrete_function([ragged, ragged], seq_length=records.SEQ)
    tf.saved_model.save(made, folder)
    return folder


def params_of(files: Files, **options: Any) -> Any:
    base = {
        "input_path": files.texts,
        "text_fields": ["premise", "hypothesis"],
        "seq_length": records.SEQ,
        "global_batch_size": 8,
        "is_training": False,
    }
    return loaders.SentencePredictionTextDataConfig().override({**base, **options})


def test_rows_are_those_of_the_vocabulary(files: Files, model: str) -> None:
    by_model = get_data_loader(params_of(files, preprocessing_hub_module_url=model)).load()
    by_file = get_data_loader(params_of(files, vocab_file=files.vocabulary)).load()
    for one, other in zip(by_model, by_file, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_a_folder_without_a_model_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(MissingFiles, match="no SavedModel"):
        get_data_loader(params_of(files, preprocessing_hub_module_url=str(tmp_path))).load()


def test_a_model_of_another_kind_is_refused(files: Files, tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path))
    with pytest.raises(InputError, match="no tokenize and no bert_pack_inputs"):
        get_data_loader(params_of(files, preprocessing_hub_module_url=str(tmp_path))).load()


def test_a_url_needs_tensorflow_hub(files: Files) -> None:
    pytest.importorskip("tensorflow_text")
    try:
        import tensorflow_hub  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("tensorflow_hub is installed")
    with pytest.raises(SettingsError, match="tensorflow_hub"):
        get_data_loader(
            params_of(files, preprocessing_hub_module_url="https://hub.example/model")
        ).load()
