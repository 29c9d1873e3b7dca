"""Every kind of task as a dataset of a project: the records of the command, in stages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.nlp.finetuning.conftest import VOCABULARY, store_tfds
from tests.nlp.finetuning.conftest import Project as Script
from tests.nlp.finetuning.test_file_tasks import pawsx, xnli, xtreme
from tests.nlp.recipes.conftest import Project, records_of
from tests.nlp.recipes.test_bert import key_of
from tests.nlp.recipes.test_finetuning import pairs, publish, write_squad

from provender.builders.steps import Part
from provender.errors import ProvenderError
from provender.nlp.finetuning import Options, create
from provender.nlp.finetuning.publishing import split_name
from provender.nlp.finetuning.running import datasets_of, splits_of
from provender.nlp.finetuning.tasks import BUCC_LANGUAGES, PANX_LANGUAGES
from provender.nlp.pretraining.examples import decode
from provender.nlp.recipes import TaskExamples

RECORDS = "examples/records"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with files of every task, whose tests build datasets of names of their own."""
    root = tmp_path_factory.mktemp("project")
    (root / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    found = Project(root)
    for name, write in FILES.items():
        (root / name).mkdir()
        write(Script(root / name, str(root / "vocab.txt")))
    write_squad(found)
    store_glue(root / "tfds")
    publish(found, "pairs", pairs(), "1.0.0")
    publish(found, "tests", pairs(5), "1.0.0")
    return found


def axg(script: Script) -> None:
    row = {"premise": "the cat", "hypothesis": "it sat", "label": "not_entailment"}
    script.write("in/AX-g.jsonl", json.dumps(row) + "\n")


def imdb(script: Script) -> None:
    for split in ("train", "test"):
        script.write(f"in/{split}/pos/2_9.txt", f"a good<br />film {split}\n")
        script.write(f"in/{split}/neg/7_1.txt", "bad")


def panx(script: Script) -> None:
    for lang in PANX_LANGUAGES:
        script.write(f"in/train-{lang}.tsv", "the\tO\ncats\tB-PER\n\nx\tO\n")
        script.write(f"in/dev-{lang}.tsv", "the\tO\n")
        script.write(f"in/test-{lang}.tsv", "x\ny\n")


def bucc(script: Script) -> None:
    for lang in BUCC_LANGUAGES:
        for split in ("dev", "test"):
            for each in (lang, "en"):
                text = "".join(f"{each}-0000{i}\tthe cat {'x' * i}\n" for i in range(3))
                script.write(f"in/{lang}-en.{split}.{each}", text)


FILES = {"imdb": imdb, "axg": axg, "pawsx": pawsx, "xnli": xnli, "xtreme": xtreme}
FILES |= {"panx": panx, "bucc": bucc}


def store_glue(folder: Path) -> None:
    rows = [{"sentence": "the cat " + "x " * i, "label": i % 2, "idx": 9 - i} for i in range(10)]
    splits = {"train": rows, "validation": rows[:4], "test": rows[5:]}
    store_tfds(folder, "glue/cola", splits)
    scored = [{"sentence1": "x", "sentence2": "y", "label": i / 4, "idx": i} for i in range(4)]
    store_tfds(folder, "glue/stsb", dict.fromkeys(("train", "validation", "test"), scored))


def scripted(project: Project, given: Mapping[str, Any]) -> dict[str, list[bytes]]:
    """The records that the command makes of a task, by their splits in a version."""
    usual = {"vocab_file": str(project.root / "vocab.txt"), "max_seq_length": 16}
    flags = {**usual, **given}
    have = splits_of(Options.of_records(**flags), datasets_of(Options.of_records(**flags)))
    out = project.root / "files"
    kind = flags.get("fine_tuning_task_type", "file")
    paths = {f"{each}_data_output_path": str(out / f"{kind}-{each}.{{}}") for each in have}
    paths["meta_data_file_path"] = str(out / "meta.json")
    made = create(Options(**flags, **paths), workers=1, settings=project.settings)
    found = {split_name(each.key): records_of(Path(each.path)) for each in made.outputs}
    for each in made.outputs:
        Path(each.path).unlink()
    return found


def task(**given: Any) -> dict[str, Any]:
    usual = {"builder": "TaskExamples", "vocab_file": "vocab.txt", "max_seq_length": 16}
    return {name: value for name, value in (usual | given).items() if value is not None}


def of_splits(built: Any) -> dict[str, list[bytes]]:
    folder = Path(built.version.uri)
    found: dict[str, list[bytes]] = {}
    for each in built.version.splits:
        files = sorted(folder.glob(f"*-{each.name}.tfrecord-*-of-?????"))
        found[each.name] = [record for file in files for record in records_of(file)]
    return found


PLACES = ("input_data_dir", "translated_input_data_dir", "squad_data_file")
TASKS: dict[str, dict[str, Any]] = {
    "imdb": {"classification_task_name": "IMDB", "input_data_dir": "imdb/in"},
    "axg": {"classification_task_name": "AX-g", "input_data_dir": "axg/in"},
    "pawsx": {
        "classification_task_name": "PAWS-X",
        "input_data_dir": "pawsx/in",
        "pawsx_language": "all",
    },
    "xnli": {"classification_task_name": "XNLI", "input_data_dir": "xnli/in"},
    "xtreme": {
        "classification_task_name": "XTREME-XNLI",
        "input_data_dir": "xtreme/in",
        "translated_input_data_dir": "xtreme/tr",
        "only_use_en_dev": False,
    },
    "panx": {
        "fine_tuning_task_type": "tagging",
        "input_data_dir": "panx/in",
        "tagging_only_use_en_train": False,
    },
    "bucc": {"fine_tuning_task_type": "retrieval", "input_data_dir": "bucc/in"},
    "squad": {"fine_tuning_task_type": "squad", "squad_data_file": "squad.json"},
}


@pytest.mark.parametrize("name", TASKS)
def test_records_are_those_of_the_command(project: Project, name: str) -> None:
    given = TASKS[name]
    project.write(**{f"{name}_bert": task(**given)})
    built = project.build(f"{name}_bert", workers=1)
    placed = {key: str(project.root / given[key]) for key in PLACES if key in given}
    assert of_splits(built) == scripted(project, {**given, **placed})
    assert key_of(built.ran) == {RECORDS}
    assert project.build(f"{name}_bert").outcome == "cached"


def test_datasets_in_folders(project: Project) -> None:
    """Of TFDS's, in the order of their numbers; scores are numbers."""
    folder = project.root / "tfds"
    data = {"tfds_data_dir": str(folder)}
    for name, config in (("COLA", "cola"), ("STS-B", "stsb")):
        [place] = (folder / "glue" / config).iterdir()
        given = {"classification_task_name": name}
        recipe = task(**given, tfds={f"glue_{config}": "x"})
        project.write(**{f"{config}_bert": recipe})
        with pytest.raises(ProvenderError, match=rf"reads glue/{config}, not glue_{config}"):
            project.build(f"{config}_bert")
        quoted = f'"glue/{config}"'
        project.write(**{f"{config}_bert": task(**given, tfds={quoted: str(place)})})
        built = project.build(f"{config}_bert", workers=1)
        assert of_splits(built) == scripted(project, {**given, **data})
    told = json.loads((Path(project.build("stsb_bert").version.uri) / "metadata.json").read_text())
    assert told["task_type"] == "bert_regression" and "label_names" not in told


PARAMS = "dataset=pairs,text_key=first,text_b_key=second,weight_key=score,test_split=train"


def test_versions_in_place_of_datasets(project: Project) -> None:
    """Examples of a class are left out, tests weigh 1 beside those that have weights."""
    given = {"tfds_params": f"{PARAMS},label_key=label,is_regression=true"}
    project.write(of_pairs=task(**given, versions="pairs:1.0.0"))
    built = project.build("of_pairs", workers=1)
    script = {**given, "version_ref": "pairs:1.0.0"}
    found, expected = of_splits(built), scripted_with(project, script)
    assert found["train"] == expected["train"]
    tests = [decode(each) for each in found["test"]]
    assert [float(each.pop("weight")[0]) for each in tests] == [1.0] * 40
    plain = [{k: v.tolist() for k, v in decode(each).items()} for each in expected["test"]]
    assert [{k: v.tolist() for k, v in each.items()} for each in tests] == plain
    catalog = project.session("of_pairs").catalog
    assert "pairs:1.0.0" in {each.name for each in catalog.lineage(built.version.id).nodes}


def scripted_with(project: Project, given: Mapping[str, Any]) -> dict[str, list[bytes]]:
    out = {f"{each}_data_output_path": str(project.root / each) for each in ("train", "test")}
    flags = {"vocab_file": str(project.root / "vocab.txt"), "max_seq_length": 16, **given, **out}
    options = Options(**flags, meta_data_file_path=str(project.root / "m.json"))
    made = create(options, workers=1, settings=project.settings)
    return {each.key: records_of(Path(each.path)) for each in made.outputs}


def test_what_runs_again(project: Project) -> None:
    folder = project.root / "again"
    (folder / "in").mkdir(parents=True)
    text = (project.root / "xtreme" / "in" / "train-en.tsv").read_text()
    (folder / "in" / "train-en.tsv").write_text(text)
    usual = {"classification_task_name": "XTREME-XNLI", "input_data_dir": "again/in"}
    project.write(again=task(**usual, splits=["train"]))
    project.build("again", workers=1)
    # Neither the number of files nor the folder's name counts for records.
    (folder / "in").rename(folder / "on")
    usual["input_data_dir"] = "again/on"
    project.write(again=task(**usual, splits=["train"]))
    assert project.build("again").outcome == "cached"
    (folder / "on" / "train-en.tsv").write_text(text * 2)
    assert "input_data_dir, train-en.tsv" in project.why("again")
    project.write(again=task(**usual, splits=["train"], shards=2, version="1.1.0"))
    built = project.build("again", workers=1)
    assert key_of(built.ran) == {RECORDS}
    assert len(of_splits(built)["train"]) == 2
    project.write(again=task(**usual, splits=["train"], shards=1, version="1.2.0"))
    assert key_of(project.build("again", workers=1).ran) == set()


def test_parts_make_the_same_pieces(tmp_path: Path) -> None:
    """However many parts there are, killed and gone on with or not."""
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (tmp_path / "in").mkdir()
    rows = [f"the cat {'x ' * (i % 7)}\ty\tentailment\n" for i in range(9_000)]
    (tmp_path / "in" / "train-en.tsv").write_text("".join(rows))
    recipe = TaskExamples(
        classification_task_name="XTREME-XNLI", input_data_dir=str(tmp_path / "in"),
        vocab_file=str(tmp_path / "vocab.txt"), splits=["train"], max_seq_length=12,
        data_dir=str(tmp_path / "data"),
    )  # fmt: skip
    made: list[dict[str, bytes]] = []
    for of in (1, 2, 3, 4):
        folder = tmp_path / str(of)
        folder.mkdir()
        parts = [Part(folder, i, of) for i in range(of)]
        paths = [path for each in reversed(parts) for path in recipe.make_records(each)]
        lost = sorted(paths)[-1]
        lost.unlink()
        lost.with_name(lost.name + ".tmp-99").write_bytes(b"half")
        assert sorted(paths) == sorted(p for each in parts for p in recipe.make_records(each))
        joined = recipe.join_records(folder, of)
        made.append({str(each.relative_to(folder)): each.read_bytes() for each in joined})
    assert all(each == made[0] for each in made) and len(made[0]) == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"classification_task_name": "COLA"}, "not said where glue/cola lies"),
        ({"classification_task_name": "COLA", "versions": "none:1.0.0"}, "which is not published"),
        ({"classification_task_name": "AX", "versions": "pairs:1.0.0"}, "cannot stand for"),
        ({**TASKS["imdb"], "versions": "pairs:1.0.0"}, "reads no TFDS dataset"),
        ({**TASKS["imdb"], "splits": ["test"]}, "IMDB has no test data"),
        ({**TASKS["bucc"], "splits": ["train"]}, "bucc has no train data"),
        ({**TASKS["imdb"], "splits": ["dev"]}, "no split 'dev'"),
        ({**TASKS["imdb"], "input_data_dir": "nowhere"}, "names is not there"),
        ({**TASKS["imdb"], "train_data_output_path": "x"}, "no option 'train_data_output_path'"),
        ({"tfds_params": "dataset=pairs,data_dir=x"}, "say where a dataset lies"),
        (
            {"tfds_params": PARAMS, "versions": "pairs:1.0.0", "labels": ["a"]},
            "label of pairs is no class",
        ),
    ],
)  # fmt: skip
def test_tasks_that_cannot_be_made(project: Project, given: dict[str, Any], message: str) -> None:
    project.write(x=task(**given))
    with pytest.raises(ProvenderError, match=message):
        project.build("x", workers=1)
