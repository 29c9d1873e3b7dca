"""Text segments to model inputs: by a vocabulary, or by a preprocessing SavedModel."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from provender.errors import InputError, MissingFiles, SettingsError
from provender.nlp.loaders.segments import ROUND_ROBIN, pack
from provender.nlp.loaders.vocabulary import Tokenizer


class Preprocessor(Protocol):
    """Makes rows of texts."""

    def __call__(self, texts: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Ids, mask and type ids, int32 [B, L] each, of string [B] for each segment."""
        ...


class ByVocabulary:
    """Tokenizes and packs with a tokenizer of this package.

    Args:
        tokenizer: what makes ids of text.
        seq_length: L.
    """

    def __init__(self, tokenizer: Tokenizer, seq_length: int) -> None:
        self._tokenizer, self._seq_length = tokenizer, seq_length

    def __call__(self, texts: Sequence[Any]) -> tuple[Any, Any, Any]:
        segments = [self._tokenizer.tokenize(each) for each in texts]
        return pack(segments, self._tokenizer, self._seq_length, ROUND_ROBIN)


class BySavedModel:
    """Tokenizes and packs with a preprocessing SavedModel, as TF-Hub has them for BERT.

    The model has ``tokenize`` (string [B] -> ragged ids) and ``bert_pack_inputs`` (a list of
    those, seq_length -> dict of input_word_ids, input_mask and input_type_ids).

    Args:
        address: folder of the model, local or gs://, or a TF-Hub URL.
        seq_length: L.

    Raises:
        MissingFiles: there is no such folder.
        InputError: the model lacks one of the two functions.
        SettingsError: a URL was given and tensorflow_hub is not installed.
    """

    def __init__(self, address: str, seq_length: int) -> None:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  (registers the operations that such models use)

        folder = _resolved(address)
        if not tf.io.gfile.exists(f"{folder}/saved_model.pb"):
            raise MissingFiles(
                "There is no SavedModel.", where=address, hint="Give the folder of the model."
            )
        self._model = tf.saved_model.load(folder)
        self._seq_length = seq_length
        missing = [
            name for name in ("tokenize", "bert_pack_inputs") if not hasattr(self._model, name)
        ]
        if missing:
            raise InputError(
                f"The preprocessing model has no {' and no '.join(missing)}.",
                where=address,
                hint="Use a preprocessing model for BERT, or a vocab_file.",
            )

    def __call__(self, texts: Sequence[Any]) -> tuple[Any, Any, Any]:
        segments = [self._model.tokenize(each) for each in texts]
        made = self._model.bert_pack_inputs(segments, seq_length=self._seq_length)
        return made["input_word_ids"], made["input_mask"], made["input_type_ids"]


def _resolved(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        return address.rstrip("/")
    try:
        tensorflow_hub = import_module("tensorflow_hub")
    except ImportError as error:
        raise SettingsError(
            "A URL of a preprocessing model needs tensorflow_hub, which is not installed.",
            where="preprocessing_hub_module_url",
            hint="Install it, or download the model and give its folder.",
        ) from error
    found: str = tensorflow_hub.resolve(address)
    return found


def check_way(vocab_file: str, hub_url: str) -> None:
    """Raises SettingsError unless exactly one of the two says how text becomes ids."""
    if bool(vocab_file) == bool(hub_url):
        what = "Both" if vocab_file else "None"
        raise SettingsError(
            f"{what} of vocab_file and preprocessing_hub_module_url "
            f"{'are' if vocab_file else 'is'} given.",
            where="vocab_file",
            hint="Give exactly one of them.",
        )
