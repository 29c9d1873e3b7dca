"""``--tfds_params``: any TFDS dataset as a task, described by ``key=value`` pairs."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace

from provender.errors import SettingsError

_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no", "")
_TYPES = ("int", "float")


@dataclass(frozen=True)
class TfdsParams:
    """A TFDS dataset as a task.

    Attributes:
        dataset: name, config and version; required.
        data_dir: where it lies.
        module_import: imported before, for a builder of one's own.
        train_split: for training.
        dev_split: for evaluation.
        test_split: for tests.
        text_key: feature of the first text.
        text_b_key: feature of the second text; empty for one.
        label_key: feature of the label.
        test_text_key: as text_key, in the test split, if it differs.
        test_text_b_key: as text_b_key, in the test split, if it differs.
        test_label: class of all test examples, a name or number; ``test_example`` is class 0.
        label_type: ``int`` or ``float``.
        weight_key: feature that says how much an example counts.
        is_regression: labels are numbers.
        skip_label: examples of this class are left out.
    """

    dataset: str
    data_dir: str = ""
    module_import: str = ""
    train_split: str = "train"
    dev_split: str = "validation"
    test_split: str = "test"
    text_key: str = "text"
    text_b_key: str = ""
    label_key: str = "label"
    test_text_key: str = ""
    test_text_b_key: str = ""
    test_label: str = "test_example"
    label_type: str = "int"
    weight_key: str = ""
    is_regression: bool = False
    skip_label: str = ""

    @property
    def has_numbers(self) -> bool:
        """Whether labels are numbers."""
        return self.is_regression or self.label_type == "float"

    def without_places(self) -> TfdsParams:
        """The same task, wherever its dataset lies."""
        return replace(self, data_dir="", module_import="")

    def text(self) -> str:
        """What `parse` reads."""
        usual = {each.name: each.default for each in fields(self)}
        found = {name: value for name, value in vars(self).items() if value != usual[name]}
        return ",".join(f"{name}={value}" for name, value in found.items())


def parse(text: str) -> TfdsParams:
    """Reads the flag's value.

    Args:
        text: ``key=value`` pairs, comma-separated.

    Raises:
        SettingsError: an entry is no pair, a key is unknown, or dataset is not given.
    """
    known = {each.name: each for each in fields(TfdsParams)}
    found: dict[str, str | bool] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        key, equals, value = (each.strip() for each in entry.partition("="))
        if not equals:
            raise _wrong(
                f"{entry!r} is no key=value.", "Write dataset=glue/cola,text_key=sentence."
            )
        if key not in known:
            near = difflib.get_close_matches(key, known, 1, 0.5)
            meant = f"Did you mean {near[0]}? " if near else ""
            raise _wrong(f"tfds_params has no key {key!r}.", f"{meant}Keys: {', '.join(known)}.")
        found[key] = _switch(key, value) if key == "is_regression" else value
    if not found.get("dataset"):
        raise _wrong("tfds_params names no dataset.", "Write dataset=NAME first.")
    params = TfdsParams(**found)  # type: ignore[arg-type]
    if params.label_type not in _TYPES:
        raise _wrong(f"label_type is {params.label_type!r}.", f"Use {', '.join(_TYPES)}.")
    return params


def _switch(key: str, value: str) -> bool:
    if value.lower() not in _TRUE + _FALSE:
        raise _wrong(f"{key} is {value!r}.", "Use true or false.")
    return value.lower() in _TRUE


def _wrong(message: str, hint: str) -> SettingsError:
    return SettingsError(message, where="--tfds_params", hint=hint)
