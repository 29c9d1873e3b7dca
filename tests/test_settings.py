"""Settings: four sources, the strongest wins, and what makes no sense is refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provender.errors import SettingsError
from provender.settings import FILE_NAME, Settings, load_settings


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def load(project: Path, text: str | None = None, **options: object) -> Settings:
    if text is not None:
        (project / FILE_NAME).write_text(text, encoding="utf-8")
    environ = {"HOME": str(project.parent), **options.pop("environ", {})}  # type: ignore[dict-item]
    return load_settings(cwd=options.pop("cwd", project), environ=environ, **options)  # type: ignore[arg-type]


def test_with_nothing_said_all_lies_below_home(project: Path) -> None:
    found = load(project)
    home = project.parent / "provender"
    assert found.home == home
    assert found.store == str(home)
    assert found.catalog == f"sqlite:///{home}/catalog.db"
    assert (found.scratch, found.manual_dir) == (home / "scratch", home / "manual")
    assert found.workers == len(os.sched_getaffinity(0))
    assert (found.offline, found.mirrors, found.datasets, found.path) == (False, {}, {}, None)
    assert not home.exists()


def test_option_beats_environment_beats_file(project: Path) -> None:
    text = 'store = "from-file"\nworkers = 3\nhome = "h"\n'
    environ = {"PROVENDER_STORE": "from-environment", "PROVENDER_WORKERS": "5"}
    assert load(project, text).store == str(project / "from-file")
    assert load(project, environ=environ).store == str(project / "from-environment")
    found = load(project, environ=environ, store="from-option")
    assert found.store == str(project / "from-option")
    assert found.workers == 5
    assert found.home == project / "h"
    assert found.path == project / FILE_NAME


def test_an_empty_variable_says_nothing(project: Path) -> None:
    assert load(project, 'store = "s"', environ={"PROVENDER_STORE": ""}).store.endswith("/s")


def test_the_nearest_file_above_is_read_and_its_paths_are_relative_to_it(project: Path) -> None:
    deep = project / "a/b"
    deep.mkdir(parents=True)
    text = 'store = "s"\nmanual_dir = "m"\nscratch = "~/x"\ncatalog = "c.db"\n'
    found = load(project, text, cwd=deep)
    assert found.store == str(project / "s")
    assert found.manual_dir == project / "m"
    assert found.scratch == Path("~/x").expanduser()
    assert found.catalog == f"sqlite:///{project}/c.db"


def test_relative_paths_elsewhere_are_relative_to_the_working_directory(project: Path) -> None:
    deep = project / "a"
    deep.mkdir()
    found = load(project, "", cwd=deep, store="s", environ={"PROVENDER_HOME": "h"})
    assert (found.store, found.home) == (str(deep / "s"), deep / "h")


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("sqlite:///c.db", "sqlite:///{here}/c.db"),
        ("sqlite:////abs/c.db", "sqlite:////abs/c.db"),
        ("c.db", "sqlite:///{here}/c.db"),
        ("postgresql+psycopg://u:p@host/db", "postgresql+psycopg://u:p@host/db"),
    ],
)
def test_catalogs(project: Path, said: str, means: str) -> None:
    assert load(project, catalog=said).catalog == means.format(here=project)


@pytest.mark.parametrize(
    ("said", "means"),
    [("gs://bucket/x", "gs://bucket/x"), ("memory://x", "memory://x"), ("file:///a b", "/a b")],
)
def test_stores(project: Path, said: str, means: str) -> None:
    assert load(project, store=said).store == means


def test_the_transform_cache_lies_in_a_local_store(project: Path) -> None:
    assert load(project).cache == project.parent / "provender" / "cache"
    assert load(project, store="gs://bucket/x").cache == project.parent / "provender" / "cache"
    assert load(project, 'store = "s"').cache == project / "s" / "cache"
    assert load(project, 'cache = "c"').cache == project / "c"
    assert load(project, environ={"PROVENDER_CACHE": "/fast"}).cache == Path("/fast")


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("20GB", 20 * 10**9),
        ("1.5 GiB", 3 << 29),
        ("500 mib", 500 << 20),
        ("7k", 7000),
        ("0", 0),
        ("123456", 123456),
        ("12 B", 12),
        ("none", None),
        ("Unlimited", None),
        ("", 50 << 30),
    ],
)
def test_what_the_transform_cache_may_hold(project: Path, said: str, means: int | None) -> None:
    assert load(project, environ={"PROVENDER_CACHE_LIMIT": said}).cache_limit == means
    assert load(project, f"cache_limit = {said!r}").cache_limit == means


def test_a_limit_can_be_a_number(project: Path) -> None:
    assert load(project, "cache_limit = 5_000_000").cache_limit == 5_000_000
    assert load(project, "cache_limit = 5e9").cache_limit == 5_000_000_000


def test_a_remote_store_leaves_the_rest_at_home(project: Path) -> None:
    found = load(project, store="gs://bucket/x")
    home = project.parent / "provender"
    assert found.catalog == f"sqlite:///{home}/catalog.db"
    assert found.manual_dir == home / "manual"


@pytest.mark.parametrize("said", ["1", "true", "YES", "on"])
def test_offline_is_read_as_people_write_it(project: Path, said: str) -> None:
    assert load(project, environ={"PROVENDER_OFFLINE": said}).offline is True


@pytest.mark.parametrize("said", ["0", "false", "No", "off"])
def test_not_offline(project: Path, said: str) -> None:
    assert load(project, "offline = true", environ={"PROVENDER_OFFLINE": said}).offline is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers = 0", "workers must be"),
        ("workers = -1", "workers must be"),
        ('workers = "many"', "workers must be"),
        ('offline = "perhaps"', "offline must be"),
        ('cache_limit = "lots"', "cache_limit must be a size"),
        ("cache_limit = -1", "cache_limit must be a size"),
        ("cache_limit = true", "cache_limit must be a size"),
        ('cache_limit = "5 iB"', "cache_limit must be a size"),
        ('cache = "gs://bucket/x"', "cache must be a local folder"),
        ("mirrors = 3", "mirrors"),
        ("datasets = 3", "datasets"),
        ("[datasets]\nown = 3", "'own' needs a table"),
        ("[datasets.own]\nversion = '1.0.0'", "'own' needs a table"),
        ("[datasets.own]\nkey = 'id'\nconfig = 'c'", "'own' needs a table"),
        ("[datasets.own]", "'own' needs a table"),
        ("store = ", "not valid TOML"),
    ],
)
def test_what_makes_no_sense_is_refused(project: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as error:
        load(project, text)
    assert error.value.where


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("stor = 's'", "stor", "store"),
        ("worker = 3", "worker", "workers"),
        ("cache_limits = 3", "cache_limits", "cache_limit"),
        ("[dataset.own]\nbuilder = 'a:B'", "dataset", "datasets"),
        ("[datasets.own]\nbuilder = 'a:B'\nconfg = 'x'", "confg", "config"),
        ("[datasets.own]\nbuilder = 'a:B'\nnum_shard = 2", "num_shard", "num_shards"),
    ],
)
def test_an_unknown_key_names_the_nearest(project: Path, text: str, key: str, near: str) -> None:
    with pytest.raises(SettingsError, match=f"Unknown key {key!r}") as error:
        load(project, text)
    assert str(project / FILE_NAME) in str(error.value.where)
    assert error.value.hint == f"Did you mean {near!r}?"


def test_an_unknown_key_like_no_other_lists_all(project: Path) -> None:
    with pytest.raises(SettingsError) as error:
        load(project, "zzz = 1")
    assert "manual_dir" in str(error.value.hint)


def test_a_file_that_was_named_must_be_there(project: Path) -> None:
    with pytest.raises(SettingsError, match="no settings file"):
        load(project, file=project / "other.toml")


def test_a_file_that_was_named_is_read_instead_of_the_nearest(project: Path) -> None:
    (project / "other.toml").write_text('store = "other"')
    assert load(project, 'store = "s"', file=project / "other.toml").store.endswith("/other")


def test_datasets(project: Path) -> None:
    text = """
        [datasets.own]
        builder = "builders/own.py:Own"
        config = "c"
        manual_dir = "by hand"
        num_shards = 3
        allow_empty = true
        kwargs = { lang = "en" }

        [datasets.mnist]
        builder = "mnist"
    """
    found = load(project, text).datasets
    own = found["own"]
    assert own.builder == f"{project}/builders/own.py:Own"
    assert own.manual_dir == f"{project}/by hand"
    assert (own.config, own.num_shards, own.allow_empty) == ("c", 3, True)
    assert own.kwargs == {"lang": "en"}
    assert found["mnist"].builder == "mnist"
    only_checked = load(project, "[datasets.xsum.checks]\nmin_examples = 3").datasets["xsum"]
    assert (only_checked.builder, only_checked.checks.min_examples) == ("", {"*": 3})
    assert found["mnist"].manual_dir is None


def test_mirrors_are_one_or_many(project: Path) -> None:
    text = '[mirrors]\n"http://a/" = "http://b/"\n"http://c/" = ["file:///d/", "http://e/"]\n'
    assert load(project, text).mirrors == {
        "http://a/": ("http://b/",),
        "http://c/": ("file:///d/", "http://e/"),
    }
