"""Examples as a published version: the same records as in files, read by `provender.load`."""

from __future__ import annotations

from pathlib import Path

import pytest

import provender
from provender.engine.session import open_catalog
from provender.errors import ConflictError, InputError, SettingsError
from provender.nlp.pretraining import Options, create
from provender.nlp.pretraining.publishing import publish
from provender.records.tfrecord import iter_records
from provender.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = str(tmp_path / "home")
    return provender.load_settings(
        cwd=str(tmp_path), environ={"HOME": home, "PROVENDER_HOME": home}
    )


def test_a_version_holds_the_records_of_the_files(
    vocab: str, text: Path, tmp_path: Path, settings: Settings
) -> None:
    options = Options(vocab_file=vocab, dupe_factor=2, do_whole_word_mask=True)
    said: list[str] = []
    done = publish(
        str(text),
        "books:1.0.0",
        options,
        shards=3,
        settings=settings,
        tell=lambda step, *_: said.append(step),
    )
    assert done.outcome == "succeeded"
    assert {"tokenize", "plan", "write"} <= set(said)
    create(str(text), f"{tmp_path}/file", options)
    expected = [payload for _, payload in iter_records(tmp_path / "file")]
    folder = Path(settings.store) / done.version.path
    shards = sorted(folder.glob("*.tfrecord-*-of-00003"))
    assert [payload for each in shards for _, payload in iter_records(each)] == expected
    batch = next(
        iter(provender.load("books:1.0.0", split="train", batch_size=8, settings=settings))
    )
    assert batch["input_ids"].shape == (8, 128)
    assert batch["masked_lm_weights"].dtype.name == "float32"

    # The same again does nothing, and the same number for other examples is refused.
    said.clear()
    again = publish(
        str(text), "books:1.0.0", options, settings=settings, tell=lambda s, *_: said.append(s)
    )
    assert (again.outcome, said) == ("cached", [])
    for changed in ({"random_seed": 1}, {"dupe_factor": 1}):
        with pytest.raises(ConflictError, match=next(iter(changed))):
            publish(
                str(text),
                "books:1.0.0",
                Options(vocab_file=vocab, **changed),
                settings=settings,  # type: ignore[arg-type]
            )
    facts = open_catalog(settings).version("books", None, "1.0.0")
    assert facts is not None
    assert facts.info["spec"]["kwargs"]["do_whole_word_mask"] is True
    assert {"examples/tokens", "examples/instances"} <= facts.info["stages"].keys()


def test_what_cannot_be_published_is_said(
    vocab: str, text: Path, tmp_path: Path, settings: Settings
) -> None:
    with pytest.raises(SettingsError, match="a name and a number, got 'books'"):
        publish(str(text), "books", Options(vocab_file=vocab), settings=settings)
    with pytest.raises(SettingsError, match="not compressed"):
        publish(
            str(text), "a:1.0.0", Options(vocab_file=vocab, gzip_compress=True), settings=settings
        )
    (tmp_path / "empty").write_text("")
    with pytest.raises(InputError, match="hold no text"):
        publish(f"{tmp_path}/empty", "a:1.0.0", Options(vocab_file=vocab), settings=settings)
    assert open_catalog(settings).version("a", None, "1.0.0") is None
