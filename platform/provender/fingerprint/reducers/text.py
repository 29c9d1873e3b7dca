"""Reducers for tokenizers and compiled patterns."""

from __future__ import annotations

import json
from typing import Any, Final

from provender.fingerprint.registry import ship


@ship("_regex.Pattern", "regex._regex.Pattern")
def regex_pattern(obj: Any) -> object:
    """Pattern, flags and named lists, which the pattern's text only names."""
    return [obj.pattern, obj.flags, {k: sorted(v) for k, v in obj.named_lists.items()}]


@ship("tokenizers.Tokenizer")
def raw_tokenizer(obj: Any) -> object:
    """Its JSON document. Objects are compared by content: the order of a vocabulary is no matter.

    Truncation and padding count. Where a function sets them itself, see
    `functions.without_runtime_state`.
    """
    return json.loads(obj.to_str())


@ship(
    "tokenizers.models.Model",
    "tokenizers.normalizers.Normalizer",
    "tokenizers.pre_tokenizers.PreTokenizer",
    "tokenizers.processors.PostProcessor",
    "tokenizers.decoders.Decoder",
)
def tokenizer_part(obj: Any) -> object:
    """The JSON that it is pickled as."""
    return json.loads(obj.__getstate__())


@ship("tiktoken.core.Encoding")
def tiktoken(obj: Any) -> object:
    """Pattern, ranks and special tokens; its pickle would hold no more than a name."""
    return [obj.name, obj._pat_str, obj._mergeable_ranks, obj._special_tokens]


@ship("sentencepiece.SentencePieceProcessor")
def sentencepiece(obj: Any) -> object:
    """The serialised model."""
    return obj.serialized_model_proto()


_TOKENIZER_STATE: Final = ("padding_side", "truncation_side", "model_max_length", "chat_template")
_NOT_CONTENT: Final = frozenset(
    {"name_or_path", "tokenizer_file", "tokenizer_object", "vocab_file", "merges_file", "backend",
     "cache_dir", "local_files_only", "token", "_commit_hash", "files_loaded", "is_local"}
)  # fmt: skip


@ship("transformers.tokenization_utils_base.PreTrainedTokenizerBase")
def pretrained_tokenizer(obj: Any) -> object:
    """Backend, vocabulary, special tokens and options.

    Truncation and padding of the backend do not count: every call sets them anew.
    """
    parts: dict[str, Any] = {name: getattr(obj, name, None) for name in _TOKENIZER_STATE}
    parts["special"] = {k: str(v) for k, v in obj.special_tokens_map.items()}
    parts["added"] = {i: str(token) for i, token in obj.added_tokens_decoder.items()}
    backend = getattr(obj, "backend_tokenizer", None)
    if backend is not None:
        document = json.loads(backend.to_str())
        document.pop("truncation", None)
        document.pop("padding", None)
        parts["backend"] = document
    else:
        parts["vocabulary"] = dict(obj.get_vocab())
    options = getattr(obj, "init_kwargs", {})
    parts["options"] = {
        k: v
        for k, v in options.items()
        if k not in _NOT_CONTENT and k not in _TOKENIZER_STATE and _is_plain(v)
    }
    return parts


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, list, dict))


@ship("transformers.configuration_utils.PretrainedConfig",
      "transformers.configuration_utils.PreTrainedConfig")  # fmt: skip
def config(obj: Any) -> object:
    """Its dictionary without the name of where it was loaded from and the library version."""
    document = obj.to_dict()
    for name in ("_name_or_path", "transformers_version", "_commit_hash"):
        document.pop(name, None)
    return document
