"""The public names: all there, and none of them heavy before it is used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import provender

HEAVY = ("tensorflow", "tensorflow_datasets", "numpy", "pandas", "pyarrow", "sqlalchemy", "alembic")
HEAVY += ("fsspec", "gcsfs", "httpx", "pydantic", "rich", "airflow", "prefect", "apache_beam")


def loaded_after(code: str) -> set[str]:
    """Which top-level packages a fresh interpreter has imported after some code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_every_public_name_is_there() -> None:
    assert {name for name in provender.__all__ if getattr(provender, name) is None} == set()
    assert dir(provender) == provender.__all__ == sorted(provender.__all__)
    assert {"build", "builder", "plan", "Hasher", "ProvenderError"} <= set(provender.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        provender.nothing


def test_importing_provender_imports_nothing_else() -> None:
    assert loaded_after("import provender") & set(HEAVY) == set()


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("provender.DatasetRef; provender.ProvenderError; provender.load_settings", set()),
        ("provender.Hasher", set()),
        ("provender.Catalog", {"sqlalchemy"}),
        ("provender.build; provender.plan; provender.builder", {"sqlalchemy"}),
        ("provender.disable_caching; provender.is_caching_enabled", set()),
    ],
)
def test_a_name_pulls_only_what_it_needs(code: str, allowed: set[str]) -> None:
    assert loaded_after(f"import provender; {code}") & set(HEAVY) <= allowed


def test_a_name_is_imported_once() -> None:
    assert provender.Hasher is provender.Hasher
    assert "Hasher" in vars(provender)


def test_names_of_ported_code_are_those_of_the_data_package() -> None:
    import provender.data as data

    for name in (
        "Dataset", "DatasetDict", "IterableDataset", "Features", "Value", "ClassLabel",
        "concatenate_datasets", "interleave_datasets", "load_dataset", "load_from_disk",
        "disable_caching", "enable_caching", "is_caching_enabled",
    ):  # fmt: skip
        assert getattr(provender, name) is getattr(data, name)
    for name in data.__all__:
        assert getattr(data, name) is not None
    assert {"Split", "NamedSplit", "Column", "disable_progress_bar"} <= set(data.__all__)
    assert data.Split.TRAIN == "train"
