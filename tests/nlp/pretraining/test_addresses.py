"""Text and output files on addresses: the same bytes as of local files, wherever they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.nlp.pretraining.conftest import corpus
from tests.upkeep import conftest as of_stores

from provender.errors import ConflictError, MissingFiles, SettingsError, StoreError
from provender.nlp.pretraining import Options, addresses, create
from provender.nlp.pretraining.publishing import publish
from provender.nlp.pretraining.running import usual_workers
from provender.store import Store

gcs_server, gcs_bucket = of_stores.gcs_server, of_stores.gcs_bucket


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PROVENDER_HOME", str(tmp_path / "home"))
    return tmp_path


def copies(home: Path) -> list[Path]:
    return [path for path in home.rglob("addresses/*") if path.is_dir()]


def expected(home: Path, options: Options) -> list[bytes]:
    (home / "a.txt").write_text(corpus(12, seed=1))
    (home / "b.txt").write_text(corpus(9, seed=2))
    create("a.txt,b.txt", "x,y", options)
    return [(home / name).read_bytes() for name in ("x", "y")]


def on(url: str, home: Path) -> None:
    store = Store.open(f"{url}/text")
    for name in ("a.txt", "b.txt"):
        store.put(str(home / name), name)


def test_a_version_of_text_at_an_address(
    vocab: str, home: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("gcs_bucket")
    options = Options(vocab_file=vocab, dupe_factor=2)
    local = expected(home, options)
    on(url, home)
    said: list[str] = []

    def ask(number: str) -> Any:
        return publish(
            f"{url}/text/*.txt", f"books:{number}", options, tell=lambda step, *_: said.append(step)
        )

    done = ask("1.0.0")
    [shard] = Path(done.version.uri).glob("*.tfrecord-00000-of-00001")
    whole = publish("a.txt,b.txt", "local:1.0.0", options)
    [same] = Path(whole.version.uri).glob("*.tfrecord-00000-of-00001")
    assert shard.read_bytes() == same.read_bytes()
    assert sum(map(len, local)) == shard.stat().st_size
    # Nothing is fetched again that is unchanged; what is changed is other text.
    assert "fetch" in said
    said.clear()
    assert ask("1.0.0").outcome == "cached" and said == []
    (home / "b.txt").write_text(corpus(9, seed=3))
    on(url, home)
    with pytest.raises(ConflictError):
        ask("1.0.0")
    assert ask("1.1.0").outcome == "succeeded"
    with pytest.raises(MissingFiles):
        publish(f"{url}/texts/*.txt", "none:1.0.0", options)


@pytest.mark.parametrize("where", ["memory", "gs"])
def test_the_bytes_are_those_of_local_files(
    where: str, vocab: str, home: Path, request: pytest.FixtureRequest
) -> None:
    url = f"memory:/{home}" if where == "memory" else request.getfixturevalue("gcs_bucket")
    options = Options(vocab_file=vocab, dupe_factor=2)
    whole = expected(home, options)
    on(url, home)
    said: list[str] = []
    made = create(
        f"{url}/text/*.txt",
        f"{url}/made/x.tfrecord,y.tfrecord",
        options,
        tell=lambda step, *_: said.append(step),
    )
    assert made.outputs == (f"{url}/made/x.tfrecord", str(home / "y.tfrecord"))
    assert Store.open(f"{url}/made").read("x.tfrecord") == whole[0]
    assert (home / "y.tfrecord").read_bytes() == whole[1]
    assert list(dict.fromkeys(said)) == ["fetch", "tokenize", "plan", "write", "send"]
    assert copies(home) == [] and usual_workers(f"{url}/text/*.txt", options) == 1


def test_what_was_made_is_not_made_again(
    vocab: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"memory:/{home}"
    options = Options(vocab_file=vocab, dupe_factor=2)
    whole = expected(home, options)
    on(url, home)

    def away(path: Path, address: str) -> None:
        raise StoreError("The store is away.", where=address)

    with monkeypatch.context() as patch:
        patch.setattr(addresses, "_send", away)
        with pytest.raises(StoreError, match="away"):
            create(f"{url}/text/a.txt,b.txt", f"{url}/x,{url}/y", options)
    assert len(copies(home)) == 1
    said: list[str] = []
    create(
        f"{url}/text/a.txt,b.txt",
        f"{url}/x,{url}/y",
        options,
        tell=lambda step, *_: said.append(step),
    )
    assert set(said) == {"send"} and copies(home) == []
    assert [Store.open(url).read(name) for name in ("x", "y")] == whole


def test_what_makes_no_sense_is_said(vocab: str, home: Path) -> None:
    url = f"memory:/{home}"
    options: Any = Options(vocab_file=vocab)
    expected(home, options)
    on(url, home)
    with pytest.raises(MissingFiles, match="does not match any files"):
        create(f"{url}/text/*.json", "x", options)
    for outputs, message in (
        (f"{url}/x,{url}/x", "named twice"),
        (f"{url}/text/a.txt", "input file as well"),
        (f"{url}/made/", "is a folder"),
    ):
        with pytest.raises(SettingsError, match=message):
            create(f"{url}/text/a.txt", outputs, options)
    assert not fsspec.filesystem("memory").exists(f"{url}/made")
