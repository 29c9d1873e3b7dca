"""`provender nlp check-loader`: what works from its configuration alone, and what does not."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.nlp.loaders import records
from tests.nlp.loaders.conftest import Files

import provender.nlp.loaders.template as template
from provender.errors import SettingsError
from provender.nlp.checking import Asked, Report, check_loader
from provender.nlp.checking.bare import check
from provender.nlp.checking.naming import REGISTERED, config_class
from provender.nlp.loaders.template import make_data
from provender.nlp.registry import registered

_numbers = itertools.count()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template's data and configuration."""
    folder = tmp_path_factory.mktemp("template")
    make_data.main(str(folder))
    return folder


@pytest.fixture
def mine(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the template's loader, its data and its configuration; the working directory."""
    for name in ("reviews.tfrecord", "my_loader.yaml"):
        shutil.copy(prepared / name, tmp_path / name)
    shutil.copy(Path(template.__path__[0]) / "my_loader.py", tmp_path / "my_loader.py")
    monkeypatch.chdir(tmp_path)
    # What a check in this process adds is taken away again.
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def config_of(folder: Path, **options: Any) -> dict[str, Any]:
    return {**yaml.safe_load((folder / "my_loader.yaml").read_text()), **options}


def checked(folder: Path, loader: str = "ReviewDataConfig", **options: Any) -> Report:
    """The steps of a check without the process around them."""
    name = f"my_loader_{next(_numbers)}.py"
    shutil.copy(folder / "my_loader.py", folder / name)
    request = {
        "loader": loader if ":" in loader else f"{folder / name}:{loader}",
        "config": config_of(folder, **options),
        "batches": 3,
        "code": [],
    }
    return check(request)


def spawned(folder: Path, **options: Any) -> Report:
    config = config_of(folder, **options)
    return check_loader(Asked("my_loader.py:ReviewDataConfig", config, batches=3))


def changed(folder: Path, old: str, new: str) -> None:
    file = folder / "my_loader.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("provender")
    home = {"HOME": os.getcwd()}
    return subprocess.run(
        [program, "nlp", "check-loader", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **home},
    )


def test_the_template_works_and_the_command_says_so(mine: Path) -> None:
    done = run("my_loader.yaml", "--loader", "my_loader.py:ReviewDataLoader", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] and document["findings"] == []
    assert document["batches"] == 8 and document["rows"] == 8 * 16
    assert document["config"] == "my_loader.ReviewDataConfig"
    found = {each["name"]: each for each in document["outputs"]}
    assert found["x.input_word_ids"]["given"] == "int32 [16, 16]"
    assert found["x.input_word_ids"]["declared"] == "int32 [?, 16]"
    assert (found["y"]["least"], found["y"]["greatest"]) == (1, 5)


def test_the_template_filters_single_records(mine: Path) -> None:
    report = checked(mine, least_votes=5)
    assert report.ok and report.findings == ()
    votes = next(each for each in report.outputs if each.name == "x.votes")
    assert votes.least == 5


def broken(report: Report, step: str) -> str:
    """The message of the one error, which must be of this step."""
    assert not report.ok
    (finding,) = [each for each in report.findings if each.severity == "error"]
    assert finding.step == step, finding
    assert finding.hint or step in ("spec", "values", "batches")
    return f"{finding.where} {finding.message}"


def test_what_other_code_or_the_environment_sets_is_not_there(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVIEW_LENGTH", "16")
    changed(mine, "import dataclasses", "import dataclasses\nimport os")
    length = 'ints(int(os.environ["REVIEW_LENGTH"]))'
    changed(mine, "ints(self._params.seq_length)", length)
    assert checked(mine).ok
    message = broken(spawned(mine), "load")
    assert "REVIEW_LENGTH" in message and "my_loader.py:" in message
    done = run(
        "my_loader.yaml", "--loader", "my_loader.py:ReviewDataConfig", "--env", "REVIEW_LENGTH"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "works from its configuration alone" in done.stdout + done.stderr
    assert "x.input_word_ids" in done.stdout


def test_a_path_relative_to_the_working_directory_fails(mine: Path) -> None:
    report = spawned(mine, input_path="reviews.tfrecord")
    assert not report.ok
    first, second = report.findings
    assert first.where == "input_path" and "relative to this working directory" in first.message
    assert str(mine / "reviews.tfrecord") in first.hint
    assert second.step == "load"


@pytest.mark.slow
def test_a_relative_path_in_the_code_fails(mine: Path) -> None:
    changed(
        mine,
        "check_lengths(self._params",
        'open("my_loader.yaml").close()\n        check_lengths(self._params',
    )
    assert checked(mine).ok
    assert "FileNotFoundError" in broken(spawned(mine), "load")


def test_outputs_are_compared_with_what_is_declared(mine: Path) -> None:
    changed(mine, '"votes": spec("int32"),', '"votes": spec("float32"),')
    assert "float32 [?] is declared, and load gives int32 [16]" in broken(checked(mine), "spec")


def test_a_missing_and_a_further_output_are_told(mine: Path) -> None:
    changed(mine, '"votes": spec("int32"),', '"upvotes": spec("int32"),')
    report = checked(mine)
    assert [(each.step, each.where) for each in report.findings] == [
        ("spec", "x.upvotes"),
        ("spec", "x.votes"),
    ]


def test_values_are_compared_with_their_limits(mine: Path) -> None:
    changed(mine, '"y": (1, 5)', '"y": (1, 4)')
    said = broken(checked(mine), "values")
    # Which examples a batch has is left to chance, but not that some have five stars.
    assert re.match(r"y 1 to 4 is declared, and batch \d has [1-5] to 5", said), said


def test_values_that_are_no_numbers_are_told(mine: Path) -> None:
    changed(mine, '"helpful": decoded["helpful"]', '"helpful": decoded["helpful"] / 0.0')
    assert "x.helpful batch 0 has values that are no numbers" in broken(checked(mine), "values")


def test_a_loader_without_a_declaration_is_warned_about(mine: Path) -> None:
    changed(mine, "def element_spec", "def other_spec")
    report = checked(mine)
    assert report.ok
    (finding,) = report.findings
    assert finding.severity == "warning" and "declares no element_spec" in finding.message


def test_int64_is_warned_about(mine: Path) -> None:
    changed(mine, 'narrow(decoded["stars"])', 'decoded["stars"]')
    changed(mine, 'return inputs, spec("int32")', 'return inputs, spec("int64")')
    report = checked(mine)
    assert report.ok
    assert [(each.step, each.where) for each in report.findings] == [("tpu", "y")]


def test_data_below_one_batch_is_told(mine: Path) -> None:
    message = broken(checked(mine, is_training=False, global_batch_size=500), "batches")
    assert "fewer than a batch of 500" in message


def test_code_that_cannot_be_imported_is_told(mine: Path) -> None:
    assert "no class Other" in broken(checked(mine, loader="Other"), "import")
    assert "no module my_loaders" in broken(checked(mine, loader="my_loaders:X"), "import")
    changed(mine, "import dataclasses", "import dataclasses\nimport no_such_library")
    assert "no_such_library" in broken(checked(mine), "import")


def test_an_unknown_key_is_told_with_the_nearest(mine: Path) -> None:
    report = checked(mine, seq_lenght=4)
    assert "no key 'seq_lenght'" in broken(report, "config")
    assert "seq_length" in report.findings[0].hint


def test_a_process_that_never_answers_is_given_up(mine: Path) -> None:
    changed(mine, "import dataclasses", "import dataclasses\nimport time\n\ntime.sleep(60)")
    report = check_loader(Asked("my_loader.py:ReviewDataConfig", {}, timeout=5))
    assert "not ready after 5 seconds" in report.findings[0].message


def test_exit_codes_of_the_command(mine: Path) -> None:
    changed(mine, '"y": (1, 5)', '"y": (1, 4)')
    failed = run("my_loader.yaml", "--loader", "my_loader.py:ReviewDataConfig")
    assert failed.returncode == 9
    assert "error: values: y: 1 to 4 is declared" in failed.stdout
    missing = run("nowhere.yaml", "--loader", "tagging")
    assert missing.returncode == 4 and "no such configuration file" in missing.stderr
    unknown = run("my_loader.yaml", "--loader", "taging")
    assert unknown.returncode == 2 and "There is no loader 'taging'" in unknown.stderr


def test_a_registered_loader_is_checked_by_its_name(files: Files) -> None:
    config = {
        "input_path": files.tagged,
        "seq_length": records.SEQ,
        "global_batch_size": 4,
        "is_training": False,
    }
    request = {"loader": "tagging", "config": config, "batches": 50, "code": []}
    report = check(request)
    assert report.ok and report.batches == records.ROWS // 4
    assert report.loader.endswith("TaggingDataLoader")


def test_every_registered_name_has_a_loader() -> None:
    assert {config_class(name) for name in REGISTERED} <= set(registered())


def test_nonsense_is_refused() -> None:
    with pytest.raises(SettingsError, match="no loader 'x'"):
        check_loader(Asked("x", {}))
    with pytest.raises(SettingsError, match="0 batches"):
        check_loader(Asked("tagging", {}, batches=0))
