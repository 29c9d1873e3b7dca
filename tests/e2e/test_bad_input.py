"""Bad input: each a clear error, before work where that is possible."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from tests.e2e.conftest import Project

from provender.errors import (
    BuilderError,
    DuplicateKeyError,
    ExampleError,
    InputError,
    ManualFilesMissing,
    SplitError,
    UnknownReference,
)

HEAD = """
import pathlib

import ml_dtypes
import numpy as np
import tensorflow_datasets as tfds

class B(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")
    {extra}

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="b",
            features=tfds.features.FeaturesDict({{{features}}}),
        )

    def _split_generators(self, dl_manager):
        {plan}

    def _generate_examples(self, n):
        {generate}
"""


def make(
    project: Project,
    *,
    features: str = '"x": tfds.features.Scalar(np.int64)',
    plan: str = 'return {"train": self._generate_examples(3)}',
    generate: str = 'yield from ((i, {"x": i}) for i in range(n))',
    extra: str = "",
) -> str:
    project.write("b.py", HEAD.format(features=features, plan=plan, generate=generate, extra=extra))
    return "b.py:B"


def published(project: Project) -> list[str]:
    folder = project.root / "store" / "datasets"
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("dataset_info.json"))


def test_unknown_dataset_says_what_comes_near(project: Project) -> None:
    with pytest.raises(UnknownReference) as caught:
        project.plan("mnits")
    assert "mnist" in str(caught.value)


def test_unknown_version_and_config_say_what_exists(project: Project) -> None:
    ref = make(project)
    session = project.session(ref)
    session.catalog.close()
    from provender.api import builder

    with pytest.raises(UnknownReference, match=r"1\.0\.0"):
        builder(str(project.root / ref), version="9.9.9", settings=project.settings).info
    with pytest.raises(UnknownReference, match="no configs"):
        builder(str(project.root / ref), config="en", settings=project.settings).info


@pytest.mark.parametrize("name", ["train-v1.0", "a/b", "all", "", "tr ain"])
def test_split_names_are_refused_before_examples(project: Project, name: str) -> None:
    ref = make(project, plan=f"return {{{name!r}: self._generate_examples(3)}}")
    with pytest.raises(SplitError) as caught:
        project.build(ref)
    assert repr(name) in str(caught.value) or "all" in str(caught.value)
    assert not (project.root / "store/building/examples").exists()


def test_empty_split_is_refused_unless_allowed(project: Project) -> None:
    ref = make(
        project,
        plan='return {"train": self._generate_examples(3), "test": self._generate_examples(0)}',
    )
    with pytest.raises(SplitError, match=r"'test' has no examples"):
        project.build(ref)
    assert published(project) == []
    built = project.build(ref, allow_empty=True)
    assert {s.name: s.examples for s in built.version.splits} == {"train": 3, "test": 0}


def test_duplicate_key_shows_both_examples_before_any_shard(project: Project) -> None:
    ref = make(project, generate='yield from ((i % 2, {"x": 40 + i}) for i in range(n))')
    with pytest.raises(DuplicateKeyError) as caught:
        project.build(ref)
    text = f"{caught.value} {caught.value.facts}"
    assert "40" in text
    assert "42" in text
    assert not (project.root / "store/building/shards").exists()


def test_dtype_that_cannot_be_stored_is_found_before_the_download(project: Project) -> None:
    ref = make(
        project,
        features='"x": tfds.features.Tensor(shape=(), dtype=ml_dtypes.bfloat16)',
        plan='dl_manager.download("http://127.0.0.1:9/never"); return {}',
    )
    with pytest.raises(BuilderError) as caught:
        project.build(ref)
    assert "'x'" in str(caught.value)
    assert "bfloat16" in str(caught.value)


def test_none_names_feature_and_key(project: Project) -> None:
    ref = make(project, generate='yield "k1", {"x": 1}; yield "k2", {"x": None}')
    with pytest.raises(ExampleError) as caught:
        project.build(ref)
    text = f"{caught.value} {caught.value.facts}"
    assert "x" in text
    assert "k2" in text
    assert "None" in text


@pytest.mark.slow
def test_example_of_2_1_gb_names_key_and_size(project: Project) -> None:
    ref = make(
        project,
        features='"x": tfds.features.Text()',
        generate='yield "small", {"x": b"a"}; yield "large", {"x": bytes(2_254_857_830)}',
    )
    with pytest.raises(ExampleError) as caught:
        project.build(ref)
    assert "large" in str(caught.value)
    assert "2" in str(caught.value)
    assert published(project) == []


def test_generator_that_raises_names_the_last_good_key(project: Project) -> None:
    ref = make(
        project, generate='yield "first", {"x": 1}; yield "second", {"x": 2}; raise OSError("gone")'
    )
    with pytest.raises(BuilderError) as caught:
        project.build(ref)
    assert "gone" in str(caught.value)
    assert "second" in f"{caught.value} {caught.value.facts}"
    assert "b.py" in caught.value.facts["traceback"]


def test_raising_generator_in_worker_processes(project: Project) -> None:
    ref = make(project, generate='yield "first", {"x": 1}; raise OSError("gone")')
    with pytest.raises(BuilderError) as caught:
        project.build(ref, workers=2)
    assert "first" in f"{caught.value} {caught.value.facts}"


MANUAL = """MANUAL_DOWNLOAD_INSTRUCTIONS = "Fetch them by hand."
    MANUAL_FILES = ("a.txt", "b.txt", "c*.txt")"""
READ_MANUAL = """
        return {"train": self._generate_examples(dl_manager.manual_dir / "a.txt")}"""


def manual_builder(project: Project) -> str:
    return make(
        project,
        extra=MANUAL,
        plan=READ_MANUAL.strip(),
        generate='yield from ((i, {"x": len(line)}) for i, line in enumerate(pathlib.Path(n).read_text().splitlines(True)))',
    )


def test_manual_dir_missing_empty_and_one_of_three(project: Project) -> None:
    ref = manual_builder(project)
    folder = project.root / "by_hand"
    with pytest.raises(ManualFilesMissing, match="by_hand") as caught:
        project.build(ref, manual_dir=str(folder))
    assert "Fetch them by hand." in str(caught.value)
    folder.mkdir()
    with pytest.raises(ManualFilesMissing) as caught:
        project.build(ref, manual_dir=str(folder))
    for name in ("a.txt", "b.txt", "c*.txt"):
        assert str(folder / name) in str(caught.value)
    (folder / "a.txt").write_text("1\n22\n")
    (folder / "c1.txt").write_text("")
    with pytest.raises(ManualFilesMissing) as caught:
        project.build(ref, manual_dir=str(folder))
    assert str(folder / "b.txt") in str(caught.value)
    assert str(folder / "a.txt") not in str(caught.value)


def test_symlinked_manual_file_counts_by_content(project: Project) -> None:
    ref = manual_builder(project)
    folder = project.root / "by_hand"
    for name in ("b.txt", "c1.txt"):
        project.write(f"by_hand/{name}", "x")
    target = project.write("elsewhere/real.txt", "1\n22\n")
    (folder / "a.txt").symlink_to(target)
    project.build(ref, manual_dir=str(folder))
    assert project.build(ref, manual_dir=str(folder)).outcome == "cached"
    target.write_text("1\n333\n")
    plan = project.plan(ref, manual_dir=str(folder), trial=True)
    assert next(s for s in plan.steps if s.key == "manual").state == "run"


def test_xsum_archive_with_other_delimiters_is_refused_by_the_check(project: Project) -> None:
    from provender.builders.spec import BuilderSpec
    from provender.engine.build import build
    from provender.engine.session import Options, open_session

    folder = project.root / "by_hand"
    article = project.write("x/bbc-summary-data/1.summary", "[SN]URL[SN]\nhttp\n[SN]TITLE[SN]\nT\n")
    folder.mkdir()
    with tarfile.open(folder / "xsum-extracts-from-downloads.tar.gz", "w:gz") as tar:
        tar.add(article, "bbc-summary-data/1.summary")
    ids = project.write("ids.json", '{"train": ["1"], "validation": [], "test": []}')
    spec = BuilderSpec("xsum", kwargs={"split_ids_url": ids.as_uri()})
    spec = BuilderSpec("provender.builders.xsum:Xsum", kwargs=spec.kwargs)
    session = open_session(spec, project.settings, Options(workers=1, manual_dir=str(folder)))
    with pytest.raises(InputError, match="SN"):
        build(session)
    session.catalog.close()
    assert published(project) == []


@pytest.mark.parametrize("name", ["with space", "#hash", "%41", "a=b", "[ab]", "star*", "ünïcode"])
def test_paths_with_odd_names(project: Project, name: str) -> None:
    from provender.settings import load_settings

    store = project.root / name / "store"
    project.settings = load_settings(
        store=str(store), cwd=project.root, environ={"HOME": str(project.root / name / "home")}
    )
    source = project.write(f"{name}/data {name}.txt", "1\n22\n")
    ref = make(
        project,
        plan=f'return {{"train": self._generate_examples(dl_manager.download({source.as_uri()!r}))}}',
        generate='yield from ((i, {"x": len(line)}) for i, line in enumerate(pathlib.Path(n).read_text().splitlines(True)))',
    )
    built = project.build(ref)
    assert built.version.splits[0].examples == 2
    assert (Path(built.version.uri) / "b-train.tfrecord-00000-of-00001").is_file()
    assert project.build(ref).outcome == "cached"


def test_builder_that_needs_beam_is_refused(project: Project) -> None:
    text = HEAD.format(
        features='"x": tfds.features.Scalar(np.int64)',
        plan="return {}",
        generate="yield 1, {}",
        extra="",
    ).replace("dl_manager):", "dl_manager, pipeline):")
    project.write("b.py", text)
    with pytest.raises(BuilderError, match="Beam"):
        project.build("b.py:B")


def test_missing_contract_methods_are_named(project: Project) -> None:
    project.write(
        "b.py",
        """
        import tensorflow_datasets as tfds
        from provender.builders import DatasetBuilder

        class NoInfo(DatasetBuilder, skip_registration=True):
            VERSION = tfds.core.Version("1.0.0")

        class NoPrepare(NoInfo, skip_registration=True):
            def _info(self):
                return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(
                    {"x": tfds.features.Text()}))
        """,
    )
    with pytest.raises(BuilderError, match="_info"):
        project.plan("b.py:NoInfo")
    with pytest.raises(BuilderError, match="_download_and_prepare"):
        project.build("b.py:NoPrepare")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_full_disk_says_so_and_publishes_nothing(project: Project) -> None:
    import subprocess

    from provender.errors import DiskFull
    from provender.settings import load_settings

    small = project.root / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode()}")
    try:
        project.settings = load_settings(
            store=str(small),
            catalog=str(project.root / "catalog.db"),
            cwd=project.root,
            environ={"HOME": str(project.root / "home")},
        )
        ref = make(
            project,
            features='"x": tfds.features.Text()',
            plan='return {"train": self._generate_examples(9000)}',
            generate='yield from ((i, {"x": "y" * 1000}) for i in range(n))',
        )
        with pytest.raises(DiskFull, match=r"space|free"):
            project.build(ref)
        assert list(small.rglob("dataset_info.json")) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
