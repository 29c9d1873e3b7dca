"""XLNet pretraining records as a dataset of a project."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.nlp.recipes.conftest import Project, records_of
from tests.nlp.recipes.test_bert import key_of
from tests.nlp.xlnet_data.conftest import MARKS, text, trained

from provender.data import Dataset
from provender.errors import ProvenderError
from provender.nlp.recipes.text import document
from provender.nlp.xlnet_data import Options, create

FLAGS = {"seq_length": 32, "reuse_length": 8, "per_host_batch_size": 4, "num_cores_per_host": 2}
PASSES = {"num_passes": 2, "random_seed": 3}
TOKENS, STREAMS = "examples/tokens", "examples/streams"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return trained(tmp_path_factory.mktemp("model"), MARKS)


@pytest.fixture
def tales(tmp_path: Path, model: str) -> Project:
    """A project with ``tales:1.0.0``, its text as a file for each shard, and a model."""
    documents = [each for each in text(60).split("\n\n") if each.strip()]
    found = Project(tmp_path)
    Dataset.from_dict({"text": documents}).publish(
        "tales", version="1.0.0", num_shards=3, settings=found.settings, workers=1
    )
    shutil.copy(model, tmp_path / "spiece.model")
    (tmp_path / "text").mkdir()
    for start, name in ((0, "0"), (20, "1"), (40, "2")):
        made = b"".join(
            document({"text": each}, ["text"]) for each in documents[start : start + 20]
        )
        (tmp_path / "text" / f"{name}.txt").write_bytes(made)
    assert len(documents) == 60
    return found


def recipe(**changed: Any) -> dict[str, Any]:
    usual = {"source": "tales:1.0.0", "sp_model_file": "spiece.model", "shards": 3}
    usual |= {"builder": "XlnetPretraining", **FLAGS, **PASSES}
    return {name: value for name, value in (usual | changed).items() if value is not None}


def scripted(project: Project, **changed: Any) -> list[bytes]:
    """The records that the command makes of the same files, pass after pass."""
    out = project.root / "out"
    shutil.rmtree(out, ignore_errors=True)
    flags: dict[str, Any] = {**FLAGS, **PASSES, **changed}
    options = Options(save_dir=str(out), sp_model_file=str(project.root / "spiece.model"), **flags)
    made = create(f"{project.root}/text/*.txt", options, workers=1)
    return [record for each in made.outputs for record in records_of(Path(each.path))]


def test_the_records_are_those_of_the_command(tales: Project) -> None:
    tales.write(tales_xlnet=recipe())
    built = tales.build("tales_xlnet", workers=2)
    assert key_of(built.ran) == {TOKENS, STREAMS}
    assert tales.records(built) == scripted(tales)
    assert tales.build("tales_xlnet").outcome == "cached"
    catalog = tales.session("tales_xlnet").catalog
    assert "tales:1.0.0" in {each.name for each in catalog.lineage(built.version.id).nodes}

    tales.write(tales_xlnet=recipe(source=None, input_file="text/*.txt", version="1.1.0"))
    assert tales.records(tales.build("tales_xlnet", workers=1)) == scripted(tales)


def test_what_runs_again_follows_what_changed(tales: Project) -> None:
    tales.write(x=recipe())
    tales.build("x", workers=1)
    for number, (changed, ran) in enumerate(
        [
            ({"seq_length": 48, "per_host_batch_size": 8}, set()),
            ({"shards": 1}, set()),
            ({"num_passes": 1}, {STREAMS}),
            ({"use_eod_token": False}, {STREAMS}),
        ]
    ):
        tales.write(x=recipe(version=f"1.0.{number + 1}", **changed))
        built = tales.build("x", workers=1)
        assert key_of(built.ran) == ran, changed
        flags = {name: value for name, value in changed.items() if name != "shards"}
        assert tales.records(built) == scripted(tales, **flags), changed
    # A model of other content means other tokens, whatever its file is called.
    (tales.root / "model").mkdir()
    other = trained(tales.root / "model", f"{MARKS},<more>")
    shutil.copy(other, tales.root / "spiece.model")
    tales.write(x=recipe(version="2.0.0"))
    assert key_of(tales.build("x", workers=1).ran) == {TOKENS, STREAMS}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"save_dir": "out"}, "There is no option 'save_dir'"),
        ({"seq_len": 8}, "Did you mean 'seq_length'"),
        ({"per_host_batch_size": 3}, "which 2 cores cannot share"),
        ({"source": None}, "either a published version or files"),
        ({"shards": 4000}, "cannot fill 4000 shards"),
        ({"seq_length": 4000}, "The text has"),
        ({"text": ["texts"]}, "There is no feature 'texts'"),
    ],
)
def test_what_cannot_be_made_is_said(tales: Project, changed: dict[str, Any], message: str) -> None:
    tales.write(x=recipe(**changed))
    with pytest.raises(ProvenderError, match=message):
        tales.build("x", workers=1)
