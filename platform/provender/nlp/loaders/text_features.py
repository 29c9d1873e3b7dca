"""What the loaders that tokenize have in common: where text is from and how it becomes ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from provender.errors import SettingsError
from provender.nlp.config import DataConfig
from provender.nlp.loaders.batching import unconverted
from provender.nlp.loaders.preprocessing import (
    BySavedModel,
    ByVocabulary,
    Preprocessor,
    check_way,
)
from provender.nlp.loaders.vocabulary import tokenizer_of
from provender.nlp.reader import InputReader
from provender.nlp.reader.files import dataset_fn_of

_SOURCES = ("input_path", "tfds_name", "version")


def check_text_source(params: DataConfig) -> None:
    """Refuses configurations without exactly one source, or with a name and no split.

    Raises:
        SettingsError: says which option is missing or too many.
    """
    given = [name for name in _SOURCES if getattr(params, name)]
    if len(given) != 1:
        raise SettingsError(
            f"Exactly one of {', '.join(_SOURCES)} must be given, got {' and '.join(given) or 'none'}.",
            where=given[-1] if given else _SOURCES[0],
            hint="Name files, a TFDS dataset or a published version.",
        )
    if (given[0] == "input_path") == bool(params.tfds_split):
        missing = "tfds_split" if not params.tfds_split else "tfds_name"
        present = given[0] if missing == "tfds_split" else "tfds_split"
        raise SettingsError(
            f"{present} is given and {missing} is not.",
            where=missing,
            hint="A TFDS dataset or a version needs a split; files have none.",
        )


def text_reader(
    params: DataConfig, features: Mapping[str, Any], make: Callable[[Mapping[str, Any]], Any]
) -> InputReader:
    """A reader that makes rows of a batch of decoded examples, wherever they are from.

    Args:
        params: the configuration.
        features: how records of files and versions are decoded; TFDS gives decoded examples.
        make: batch of examples -> batch of rows.
    """
    if params.tfds_name:
        return InputReader(params, postprocess_fn=unconverted(make))
    return InputReader(
        params,
        dataset_fn=dataset_fn_of(params.get("file_type", "tfrecord")),
        features=features,
        postprocess_fn=unconverted(make),
    )


def preprocessor_of(params: Any, tokenization: str) -> Preprocessor:
    """What makes ids of text, as a configuration with a vocabulary or a model says."""
    check_way(params.vocab_file, params.preprocessing_hub_module_url)
    if params.preprocessing_hub_module_url:
        return BySavedModel(params.preprocessing_hub_module_url, params.seq_length)
    tokenizer = tokenizer_of(tokenization, params.vocab_file, params.lower_case)
    return ByVocabulary(tokenizer, params.seq_length)


def texts_of(example: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """The text features of a batch, by name.

    Raises:
        SettingsError: the data has no such feature, or it is no text.
    """
    for name in names:
        if name not in example or example[name].dtype.name != "string":
            texts = sorted(key for key, value in example.items() if _is_text(value))
            raise SettingsError(
                f"The data has no text feature {name!r}.",
                where=name,
                hint=f"Its text features are {', '.join(texts) or 'none'}.",
            )
    return [example[name] for name in names]


def _is_text(value: Any) -> bool:
    return hasattr(value, "dtype") and value.dtype.name == "string"


def tfds_specs(params: DataConfig) -> Mapping[str, Any]:
    """Name -> `tf.TensorSpec` of one example of the configured TFDS dataset."""
    import tensorflow_datasets as tfds

    names = params.tfds_name
    name = names if isinstance(names, str) else next(iter(names.values()))
    folder = {"data_dir": params.tfds_data_dir} if params.tfds_data_dir else {}
    found: Mapping[str, Any] = tfds.builder(name, **folder).info.features.get_tensor_spec()
    return found
