"""Loading: from a name, a module or a file to an instance; errors say what exists instead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provender.builders.load import GENERATOR, OPAQUE, SHARDS, kind_of, load, load_class
from provender.builders.spec import BuilderSpec
from provender.errors import BuilderError, UnknownReference

SOURCE = """
import tensorflow_datasets as tfds
{extra}

class Small(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.2.0")
    SUPPORTED_VERSIONS = [tfds.core.Version("1.0.0")]
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="one"),
        tfds.core.BuilderConfig(name="other", version=tfds.core.Version("3.0.0")),
    ]

    def __init__(self, *, lang="en", **kwargs):
        self.lang = lang
        super().__init__(**kwargs)

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({{"text": tfds.features.Text()}})
        )

    def _split_generators(self, dl_manager):
        return {{"train": self._generate_examples()}}

    def _generate_examples(self):
        yield 0, {{"text": "a"}}

    PLACE = __file__


WORD = "not a class"

class NoBuilder:
    pass
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Writes a module, and forgets afterwards all that was imported from here."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def make(name: str, text: str = SOURCE.format(extra="")) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    yield make
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[module]


def test_a_class_from_a_file(write: Callable[..., Path]) -> None:
    loaded = load(BuilderSpec(f"{write('small_one.py')}:Small", kwargs={"lang": "de"}))
    assert (loaded.name, loaded.config, loaded.version) == ("small", "one", "1.2.0")
    assert loaded.builder.lang == "de"
    assert loaded.kind == GENERATOR
    assert type(loaded.builder).__module__ == "small_one"


def test_a_config_and_a_version(write: Callable[..., Path]) -> None:
    source = f"{write('small_two.py')}:Small"
    assert load(BuilderSpec(source, "one", "1.0.0")).version == "1.0.0"
    assert load(BuilderSpec(source, "other")).version == "3.0.0"


def test_an_instance_never_sees_prepared_data(write: Callable[..., Path]) -> None:
    loaded = load(BuilderSpec(f"{write('small_three.py')}:Small"))
    assert not Path(loaded.builder.data_dir).exists()
    assert not loaded.builder.info.splits


def test_a_helper_beside_the_file(write: Callable[..., Path]) -> None:
    write("helper_beside_file.py", "from pathlib import Path\nWORD = 'help'\n")
    path = write("with_helper.py", SOURCE.format(extra="import helper_beside_file"))
    cls = load_class(f"{path}:Small")
    assert sys.modules[cls.__module__].helper_beside_file.WORD == "help"


def test_a_package_with_relative_imports(write: Callable[..., Path]) -> None:
    write("pack_of_sets/__init__.py", "")
    write("pack_of_sets/inner/__init__.py", "")
    write("pack_of_sets/inner/helper.py", "WORD = 'help'")
    extra = "from .helper import WORD as HELP"
    path = write("pack_of_sets/inner/small.py", SOURCE.format(extra=extra))
    cls = load_class(f"{path}:Small")
    assert cls.__module__ == "pack_of_sets.inner.small"
    assert load_class("pack_of_sets.inner.small:Small") is cls


def test_files_of_one_stem_are_told_apart(write: Callable[..., Path]) -> None:
    files = [str(write(f"{folder}/same_stem.py")) for folder in "abc"]
    order = [0, 1, 2, 1, 0, 0, 2]
    assert [load_class(f"{files[i]}:Small").PLACE for i in order] == [files[i] for i in order]


def test_each_builder_gets_the_helper_beside_it(write: Callable[..., Path]) -> None:
    extra = "import helper_of_same_name\nHELP = helper_of_same_name.WORD"
    files = []
    for folder in "ab":
        write(f"{folder}/helper_of_same_name.py", f"WORD = {folder!r}")
        files.append(write(f"{folder}/set_{folder}.py", SOURCE.format(extra=extra)))
    found = []
    for file in [files[0], files[1]]:
        cls = load_class(f"{file}:Small")
        found.append(sys.modules[cls.__module__].HELP)
    assert found == ["a", "b"]


def test_a_changed_file_is_imported_again(write: Callable[..., Path]) -> None:
    text = SOURCE.format(extra="import changing_helper")
    write("changing_helper.py", "WORD = 1")
    source = f"{write('changing.py', text)}:Small"
    first = load_class(source)
    write("changing_helper.py", "WORD = 'other'")
    again = load_class(source)
    assert again is not first
    assert sys.modules[again.__module__].changing_helper.WORD == "other"
    write("changing.py", text.replace("1.2.0", "1.3.0"))
    assert load(BuilderSpec(source)).version == "1.3.0"


def test_classes_stay_out_of_the_tfds_registry(write: Callable[..., Path]) -> None:
    import tensorflow_datasets as tfds

    text = SOURCE.format(extra="").replace(", skip_registration=True", "")
    text = text.replace("class Small", "class OnlyLoadedByFile")
    load_class(f"{write('registering.py', text)}:OnlyLoadedByFile")
    assert "only_loaded_by_file" not in tfds.list_builders()


def test_a_file_named_like_an_installed_module(write: Callable[..., Path]) -> None:
    import json

    cls = load_class(f"{write('json.py')}:Small")
    assert cls.PLACE.endswith("/json.py")
    assert sys.modules["json"] is json


def test_a_file_is_imported_once(write: Callable[..., Path]) -> None:
    source = f"{write('once_only.py')}:Small"
    assert load_class(source) is load_class(source)


def test_names_with_blanks_and_signs(write: Callable[..., Path]) -> None:
    path = write("a b # %41 [x] é/own_set.py")
    assert load_class(f"{path}:Small").__name__ == "Small"


def test_a_registered_name() -> None:
    assert load_class("tfds:mnist").__name__ == "MNIST"


def test_an_unregistered_name() -> None:
    with pytest.raises(UnknownReference, match="no dataset 'nothing_like_it'"):
        load_class("tfds:nothing_like_it")


def test_no_such_module() -> None:
    for name in ("nothing_like_it", "nothing_like_it.below", "json.nothing"):
        with pytest.raises(UnknownReference, match="There is no module") as error:
            load_class(f"{name}:Small")
        assert str(Path.cwd()) in str(error.value.hint)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UnknownReference, match="There is no file"):
        load_class(f"{tmp_path}/nothing.py:Small")


def test_no_such_class_names_those_that_are_there(write: Callable[..., Path]) -> None:
    path = write("misnamed.py")
    with pytest.raises(UnknownReference, match="has no 'Smal'") as error:
        load_class(f"{path}:Smal")
    assert error.value.hint == "It has: Small."
    with pytest.raises(UnknownReference) as error:
        load_class(f"{path}:Zzz")
    assert "NoBuilder" in str(error.value.hint)


@pytest.mark.parametrize("name", ["WORD", "NoBuilder"])
def test_what_is_no_builder(write: Callable[..., Path], name: str) -> None:
    with pytest.raises(BuilderError, match=f"{name} is not a dataset builder"):
        load_class(f"{write('no_builder.py')}:{name}")


@pytest.mark.parametrize("text", ["1 / 0", "def broken(:", "import nothing_like_it"])
def test_a_module_that_raises(write: Callable[..., Path], text: str) -> None:
    path = write("raising_module.py", text)
    for _ in range(2):
        with pytest.raises(BuilderError, match="Importing the builder raised") as error:
            load_class(f"{path}:Small")
        assert error.value.where == str(path)
    assert "raising_module" not in sys.modules


def test_an_unknown_config_names_those_that_are_there(write: Callable[..., Path]) -> None:
    source = f"{write('configs_here.py')}:Small"
    with pytest.raises(UnknownReference, match="no config 'onne'") as error:
        load(BuilderSpec(source, "onne"))
    assert error.value.hint == "It has: one."
    assert error.value.facts["configs"] == ["one", "other"]


def test_a_config_where_there_are_none() -> None:
    with pytest.raises(UnknownReference, match="no config 'any'") as error:
        load(BuilderSpec("tfds:mnist", "any"))
    assert error.value.hint == "It has no configs."


def test_an_unknown_version_names_those_that_are_there(write: Callable[..., Path]) -> None:
    with pytest.raises(UnknownReference, match=r"no version 9\.9\.9") as error:
        load(BuilderSpec(f"{write('versions_here.py')}:Small", version="9.9.9"))
    assert error.value.hint == "It builds: 1.2.0, 1.0.0, 3.0.0."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError('lost')", "cannot be made: KeyError: 'lost'"),
        ("raise NotImplementedError('_info')", "does not implement _info"),
        ("return None", "cannot be made"),
    ],
)
def test_an_info_that_breaks(write: Callable[..., Path], body: str, message: str) -> None:
    text = SOURCE.format(extra="").replace(
        "return tfds.core.DatasetInfo(", f"{body}\n        return tfds.core.DatasetInfo("
    )
    with pytest.raises(BuilderError, match=message) as error:
        load(BuilderSpec(f"{write('bad_info.py', text)}:Small"))
    assert "bad_info.py:Small" in str(error.value.where)


def test_an_unknown_keyword_argument(write: Callable[..., Path]) -> None:
    with pytest.raises(BuilderError, match="unknown_word"):
        load(BuilderSpec(f"{write('keywords.py')}:Small", kwargs={"unknown_word": 1}))


def test_a_builder_without_its_methods(write: Callable[..., Path]) -> None:
    text = "import tensorflow_datasets as tfds\nclass Bare(tfds.core.GeneratorBasedBuilder, skip_registration=True):\n    VERSION = tfds.core.Version('1.0.0')\n"
    with pytest.raises(BuilderError, match="Bare"):
        load(BuilderSpec(f"{write('bare.py', text)}:Bare"))


def test_kinds() -> None:
    import tensorflow_datasets as tfds

    from provender.builders import DatasetBuilder

    assert kind_of(tfds.core.GeneratorBasedBuilder) == GENERATOR
    assert kind_of(tfds.core.ShardBasedBuilder) == SHARDS
    assert kind_of(tfds.core.DatasetBuilder) == kind_of(DatasetBuilder) == OPAQUE


def test_loading_does_not_import_tensorflow(write: Callable[..., Path]) -> None:
    code = (
        "import sys\nfrom provender.builders.load import load\n"
        "from provender.builders.spec import BuilderSpec\n"
        "load(BuilderSpec(sys.argv[1]))\nassert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, f"{write('light.py')}:Small"], check=True)
