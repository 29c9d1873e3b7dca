"""Checks before publishing: what they find, that they block, and how they are overridden."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from provender.catalog import Catalog
from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.errors import ChecksFailed, SettingsError
from provender.refs import DatasetRef
from provender.settings import Checks, load_settings
from provender.stages.checks import Before, evaluate, load_function

BUILDER = """
import tensorflow_datasets as tfds


class Notes(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("{version}")

    def _info(self):
        features = {{
            "text": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=["calm", "loud"]),
        }}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {{"train": self._generate_examples({count}), "test": self._generate_examples(20)}}

    def _generate_examples(self, count):
        for i in range(count):
            yield i, {{"text": "note" * ({words}), "label": int({label})}}
"""
PLAIN = {"version": "1.0.0", "count": 100, "words": "i % 5 + 1", "label": "i % 2"}


def label(counts, classes=None, **names):
    return {
        "kind": "label", "examples": sum(counts), "missing": 0, "empty": 0, "sequence": False,
        "labels": {
            "classes": classes or len(counts),
            "counts": [[i, n] for i, n in enumerate(counts)],
            "names": {str(i): n for i, n in enumerate(names.values())},
        },
    }  # fmt: skip


def figures(**features):
    return {"train": {"examples": 100, "features": features}}


def found(checks, given, counts=None, before=None, functions=None):
    return [
        (each.label, each.state)
        for each in evaluate(checks, counts or {"train": 100}, given, before, functions or {})
    ]


@pytest.mark.parametrize(
    ("checks", "states"),
    [
        (Checks(min_examples={"*": 100}), [("min_examples", "passed")]),
        (Checks(min_examples={"*": 101}), [("min_examples", "failed")]),
        (Checks(max_examples={"train": 99}), [("max_examples:train", "failed")]),
        (Checks(min_examples={"dev": 1}), [("min_examples:dev", "failed")]),
    ],
    ids=["enough", "too few", "too many", "no such split"],
)
def test_numbers_of_examples(checks, states) -> None:
    assert found(checks, {}) == states


def test_balance_is_the_ratio_of_the_rarest_class_to_the_most_common() -> None:
    given = figures(y=label([60, 30, 10]), z=label([50, 50]))
    [one, other] = evaluate(Checks(label_balance={"*": 0.5}), {}, given, None, {})
    assert (one.scope, one.state, one.measured) == ("train/y", "failed", pytest.approx(1 / 6))
    assert "has 10 examples" in one.message and other.state == "passed"
    assert found(Checks(label_balance={"y": 0.1}), given) == [("label_balance:train/y", "passed")]
    unused = figures(y=label([50, 50, 0]))
    assert found(Checks(label_balance={"*": 0.1}), unused) == [("label_balance:train/y", "failed")]


def test_labels_that_hide_nothing_are_skipped() -> None:
    hidden = figures(y={**label([]), "labels": {"classes": 2, "counts": [[-1, 100]], "names": {}}})
    assert found(Checks(label_balance={"*": 0.5}), hidden) == [("label_balance", "skipped")]


def test_empty_missing_and_nan_are_found() -> None:
    base = {"kind": "float", "examples": 9, "missing": 0, "empty": 0}
    given = figures(
        a=base, b={**base, "missing": 1}, c={**base, "empty": 2}, d={**base, "numbers": {"nan": 3}}
    )
    states = dict(found(Checks(no_empty=("*",)), given))
    assert states == {
        "no_empty:train/a": "passed",
        "no_empty:train/b": "failed",
        "no_empty:train/c": "failed",
        "no_empty:train/d": "failed",
    }
    assert found(Checks(no_empty=("a",)), given) == [("no_empty:train/a", "passed")]


def test_drift_is_measured_against_what_was_published() -> None:
    checks = Checks(max_drift={"y": 0.2, "*": 0.9})
    before = Before("notes:1.0.0", figures(y=label([50, 50]), z=label([10, 90])))
    given = figures(y=label([5, 95]), z=label([90, 10]))
    assert found(checks, given, before=before) == [
        ("max_drift:train/y", "failed"),
        ("max_drift:train/z", "passed"),
    ]
    assert found(checks, given) == [("max_drift", "skipped")]
    assert found(checks, given, before=Before("notes:1.0.0", {})) == [("max_drift", "skipped")]


def test_a_feature_that_is_not_there_is_told() -> None:
    given = figures(y=label([50, 50]))
    before = Before("notes:1.0.0", given)
    checks = Checks(max_drift={"y": 0.2, "yy": 0.1}, no_empty=("y", "x"), label_balance={"z": 0.1})
    assert found(checks, given, before=before) == [
        ("label_balance:z", "skipped"),
        ("no_empty:train/y", "passed"),
        ("no_empty:x", "skipped"),
        ("max_drift:train/y", "passed"),
        ("max_drift:yy", "skipped"),
    ]


def test_functions_of_the_project() -> None:
    def good(statistics):
        return None

    def bad(statistics):
        yield f"{len(statistics)} splits are too few"

    def text(statistics):
        return "one problem"

    def broken(statistics):
        raise KeyError("nothing there")

    outcomes = evaluate(
        Checks(), {}, {}, None, {"good": good, "bad": bad, "text": text, "broken": broken}
    )
    assert [(each.name, each.state) for each in outcomes] == [
        ("good", "passed"), ("bad", "failed"), ("text", "failed"), ("broken", "failed"),
    ]  # fmt: skip
    assert outcomes[1].message == "0 splits are too few" and "KeyError" in outcomes[3].message


def test_functions_are_found_in_files_and_modules(tmp_path) -> None:
    (tmp_path / "my_checks.py").write_text("def one(figures):\n    return ['no']\n")
    assert load_function("my_checks.py:one", tmp_path)({}) == ["no"]
    assert load_function("my_checks:one", tmp_path)({}) == ["no"]
    for source in ("nowhere.py:one", "my_checks.py:two", "no_such_module:one", "my_checks"):
        with pytest.raises(SettingsError):
            load_function(source, tmp_path)


# -- settings ------------------------------------------------------------------------------------------

HEAD = '[datasets.notes]\nbuilder = "notes.py:Notes"\n[datasets.notes.checks]\n'


def settings_of(home: Path, text: str = ""):
    (home / "provender.toml").write_text(f'store = "store"\nhome = "home"\nworkers = 1\n{text}')
    return load_settings(cwd=home, environ={"HOME": str(home)})


def test_settings_are_read(tmp_path) -> None:
    text = HEAD + (
        "min_examples = 10\nmax_examples = { train = 20 }\nlabel_balance = 0.5\n"
        'max_drift = { text = 0.1, "*" = 0.3 }\nno_empty = true\nfunction = "a.py:b"\n'
    )
    checks = settings_of(tmp_path, text).datasets["notes"].checks
    assert checks == Checks(
        {"*": 10}, {"train": 20}, {"*": 0.5}, {"text": 0.1, "*": 0.3}, ("*",), {"b": "a.py:b"}
    )
    assert checks.names == (
        "min_examples", "max_examples", "label_balance", "max_drift", "no_empty", "b",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("min_exampels = 3", "Unknown key 'min_exampels'", "min_examples"),
        ("max_drift = 2", "max_drift must be a number from 0 to 1", ""),
        ("max_drift = { text = 'much' }", "max_drift must be a number", ""),
        ("min_examples = true", "min_examples must be a number", ""),
        ("no_empty = 3", "no_empty must be", ""),
        ("function = 'nothing'", "function must be", ""),
        ("function = ['a.py:f', 'b.py:f']", "names of their own", "Rename"),
        ("function = 'a.py:max_drift'", "names of their own", "max_drift"),
    ],
    ids=["typo", "too large", "no number", "bool", "no_empty", "no function", "twice", "taken"],
)
def test_settings_that_make_no_sense(tmp_path, line, said, hint) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        settings_of(tmp_path, HEAD + line)
    assert hint in (caught.value.hint or "") and "datasets.notes.checks" in (
        caught.value.where or ""
    )


# -- builds --------------------------------------------------------------------------------------------


def write(home: Path, **about) -> None:
    (home / "notes.py").write_text(BUILDER.format(**(PLAIN | about)))


def run(settings, **options):
    session = open_session(DatasetRef.parse("notes"), settings, Options(workers=1, **options))
    return build(session)


def test_a_blocked_build_is_not_published_and_only_publishes_once_allowed(tmp_path) -> None:
    write(tmp_path)
    settings = settings_of(
        tmp_path, HEAD + "min_examples = { train = 200, test = 20 }\nno_empty = true\n"
    )
    with pytest.raises(ChecksFailed, match="Split train has 100 examples, at least 200") as caught:
        run(settings)
    [failed] = caught.value.facts["failed"]
    assert (failed["check"], failed["scope"], failed["measured"]) == ("min_examples", "train", 100)
    assert "--allow min_examples" in (caught.value.hint or "")
    with Catalog.open(settings.catalog) as catalog:
        assert catalog.versions() == []
        [blocked] = catalog.runs()
        assert blocked.outcome == "blocked"
        assert {each.state for each in catalog.checks(run_id=blocked.id)} == {"passed", "failed"}
        built = run(settings, allow=("min_examples:train",), reason="a small pilot")
        assert built.ran == ("register",), "what was made is kept"
        [allowed] = catalog.checks(run_id=built.run_id, state="allowed")
        assert (allowed.name, allowed.scope) == ("min_examples", "train")
        assert allowed.allow_reason == "a small pilot" and allowed.allowed_by
        assert built.version.run_id == built.run_id
    assert run(settings).outcome == "cached"


def test_what_is_not_named_still_blocks(tmp_path) -> None:
    write(tmp_path)
    settings = settings_of(tmp_path, HEAD + "min_examples = 1000\nmax_examples = { test = 5 }\n")
    with pytest.raises(ChecksFailed) as caught:
        run(settings, allow=("min_examples",), reason="a pilot")
    assert [each["check"] for each in caught.value.facts["failed"]] == ["max_examples"]


def test_drift_from_the_version_before_blocks(tmp_path) -> None:
    write(tmp_path)
    settings = settings_of(tmp_path, HEAD + 'max_drift = { label = 0.3, "*" = 0.9 }\n')
    first = run(settings)
    with Catalog.open(settings.catalog) as catalog:
        assert [each.state for each in catalog.checks(run_id=first.run_id)] == ["skipped"]
        # A version that was made before there were statistics is read for them.
        catalog.set_statistics(first.version.id, {"train": {}, "test": {}})
        write(tmp_path, version="1.1.0", label="i % 10 == 0")
        with pytest.raises(ChecksFailed, match=r"label\).*Drift from notes:1.0.0 is 0.3"):
            run(settings)
        assert all(catalog.statistics(first.version.id).values())
    write(tmp_path, version="1.1.0", words="i % 5 + 1", label="i % 2", count=110)
    assert run(settings).version.version == "1.1.0"


def test_a_trial_is_checked_and_not_blocked(tmp_path) -> None:
    write(tmp_path)
    settings = settings_of(tmp_path, HEAD + "min_examples = 1000\n")
    built = run(settings, max_examples=5)
    assert built.version.status == "trial"
    with Catalog.open(settings.catalog) as catalog:
        assert [each.state for each in catalog.checks(run_id=built.run_id)] == ["failed"]


def test_a_function_sees_the_figures_of_what_is_built(tmp_path) -> None:
    write(tmp_path)
    (tmp_path / "checks.py").write_text(
        "def lengths(figures):\n"
        "    for split, doc in figures.items():\n"
        "        most = doc['features']['text']['characters']['max']\n"
        "        if most > 16:\n"
        "            yield f'{split} has a text of {most} characters'\n"
    )
    settings = settings_of(tmp_path, HEAD + 'function = "checks.py:lengths"\n')
    with pytest.raises(ChecksFailed, match="train has a text of 20 characters"):
        run(settings)
    assert run(settings, allow=("lengths",), reason="long ones are fine").ran == ("register",)


@pytest.mark.parametrize(
    ("scope", "hint"),
    [
        ("typo", "There are: train, test, train/"),
        ("tain", "Did you mean 'min_examples:train'?"),
        ("train/lable", "Did you mean 'min_examples:train/label'?"),
        ("label", "Did you mean 'min_examples:train/label'?"),
    ],
)
def test_a_part_of_a_check_that_is_not_there_is_refused(tmp_path, scope, hint) -> None:
    write(tmp_path)
    settings = settings_of(tmp_path, HEAD + "min_examples = { train = 1000 }\n")
    with pytest.raises(SettingsError, match=f"no split or feature '{scope}'") as caught:
        run(settings, allow=(f"min_examples:{scope}",), reason="a pilot")
    assert hint in (caught.value.hint or "")
    with Catalog.open(settings.catalog) as catalog:
        assert catalog.versions() == []
    allowed = run(settings, allow=("min_examples:train",), reason="a pilot")
    assert allowed.ran == ("register",)


def test_options_that_make_no_sense(tmp_path) -> None:
    write(tmp_path)
    settings = settings_of(tmp_path, HEAD + "min_examples = 1\n")
    with pytest.raises(SettingsError, match="without a reason"):
        Options(allow=("min_examples",))
    with pytest.raises(SettingsError, match="no check is to be overridden"):
        Options(reason="because")
    with pytest.raises(SettingsError, match="no check 'max_drift'"):
        run(settings, allow=("max_drift",), reason="because")
    with pytest.raises(SettingsError, match="no check 'min_examples'") as caught:
        run(replace(settings, datasets={
            "notes": replace(settings.datasets["notes"], checks=None)
        }), allow=("min_examples",), reason="because")  # fmt: skip
    assert "has none" in (caught.value.hint or "")
