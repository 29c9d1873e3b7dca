"""XSum beside the builder of the same name in the TFDS catalog: the same examples, the same bytes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tensorflow_datasets as tfds
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.builders.xsum_archive import ARCHIVE, FOLDER, IDS_FILE, article, data, pack

from provender.builders import _xsum_format as xsum_format
from provender.builders import xsum as xsum_module
from provender.builders.xsum import SPLIT_IDS_URL, Xsum
from provender.errors import ExampleError

ODD_ARTICLES = {
    "10": article(),
    "11": article(body="one\r\ntwo\r\n\r\nthree\r\n").replace(b"\n", b"\r\n"),
    "12": article(body="one\rtwo\r\rthree"),
    "13": article(body="Share this with\nEmail\nkept\nLinkedin\nLinkedIn\nCopy this link\nend\n"),
    "14": article(body="the last line has no newline\nEmail"),
    "15": article(body=" Email\nEmail \nFaceBook\nemail\n\xa0\n\x0b\n\u2028\na\x85b\u2028c\x1cd\n"),
    "16": article(summary="", body=""),
    "17": b"\xef\xbb\xbf" + article(summary="Über naïve “quotes” — 東京"),
    "18": article(summary="Twitter\nThe summary.\nWhatsApp", body="x\n\n\n   \ny\n"),
    "19": article(body="Email\r\nShare this with\r\nkept\r\n"),
    "20": article(body="text that says [XSUM] once more\n"),
}


@dataclass(frozen=True)
class Golden:
    directories: dict[str, Path]
    examples: dict[str, dict[str, dict[str, dict[str, str]]]]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """One archive built by both builders, each with TFDS's own `download_and_prepare`.

    TFDS looks for a registered file name in manual_dir and then checks size and sha256. The split
    ids here are a small list of ours, so both classes get a subclass that registers *its* digest;
    nothing else is replaced: download manager, extraction, generation and writing are TFDS's.
    """
    from tensorflow_datasets.core.download.checksums import UrlInfo
    from tensorflow_datasets.summarization.xsum import Xsum as CatalogXsum

    root = tmp_path_factory.mktemp("golden")
    members = {data(key): content for key, content in ODD_ARTICLES.items()}
    members |= {
        data(str(key)): article(f"Summary {key}.", f"Body {key}\n") for key in range(30, 90)
    }
    members |= {
        f"./{FOLDER}/21.data": article("dotted"),
        data("sub/22"): article("nested"),
        data("99"): article("in no split"),
        f"elsewhere/{FOLDER}/23.data": article("in another folder"),
        f"{FOLDER}/24.txt": article("with another suffix"),
    }
    manual = root / "manual"
    pack(manual / ARCHIVE, members)
    ids = {
        "train": [*map(str, range(89, 29, -1)), *ODD_ARTICLES, "21", "sub/22", "23", "24"],
        "validation": ["10", "404", "13", "31", "12"],
        "test": ["405", "16", "40", "41"],
    }
    text = json.dumps(ids)
    (manual / IDS_FILE).write_text(text)
    registered = {
        SPLIT_IDS_URL: UrlInfo(len(text), hashlib.sha256(text.encode()).hexdigest(), IDS_FILE)
    }

    class Theirs(CatalogXsum, skip_registration=True):
        name = "xsum"
        url_infos = registered

    class Ours(Xsum, skip_registration=True):
        name = "xsum"
        url_infos = registered

    config = tfds.download.DownloadConfig(
        manual_dir=manual, extract_dir=root / "extracted", num_shards=3
    )
    directories, examples = {}, {}
    for kind in (Theirs, Ours):
        made = kind(data_dir=root / kind.__name__)
        made.download_and_prepare(download_dir=root / "downloads", download_config=config)
        directories[kind.__name__] = Path(made.data_dir)
        downloads = made._make_download_manager(root / "downloads", config)
        examples[kind.__name__] = generated(made, downloads)
    return Golden(directories, examples)


def generated(builder: Any, downloads: Any) -> dict[str, dict[str, dict[str, str]]]:
    """Split -> key -> example, of the catalog's list of split generators or of our mapping."""
    splits = builder._split_generators(downloads)
    if isinstance(splits, list):
        splits = {
            str(split.name): builder._generate_examples(**split.gen_kwargs) for split in splits
        }
    return {split: dict(generator) for split, generator in splits.items()}


def test_directory_is_named_like_the_catalogs(golden: Golden) -> None:
    assert (
        golden.directories["Ours"].parts[-2:]
        == golden.directories["Theirs"].parts[-2:]
        == ("xsum", "1.1.0")
    )


def test_examples_equal_those_of_the_catalog_builder_by_key(golden: Golden) -> None:
    sizes = {split: len(each) for split, each in golden.examples["Ours"].items()}
    assert sizes == {"train": 73, "validation": 4, "test": 3}
    assert golden.examples["Ours"] == golden.examples["Theirs"]


def test_shards_and_features_equal_those_of_the_catalog_builder(golden: Golden) -> None:
    files = {
        who: {
            path.name: path.read_bytes()
            for path in directory.iterdir()
            if path.name != "dataset_info.json"
        }
        for who, directory in golden.directories.items()
    }
    assert len(files["Ours"]) == 3 * 3 + 1
    assert files["Ours"] == files["Theirs"]
    infos = [
        json.loads((golden.directories[who] / "dataset_info.json").read_text())
        for who in golden.directories
    ]
    assert infos[0]["splits"] == infos[1]["splits"]
    assert infos[0]["supervisedKeys"] == infos[1]["supervisedKeys"]


LINES = st.one_of(
    st.sampled_from(sorted(line.rstrip("\n") for line in xsum_format.REMOVED_LINES)),
    st.sampled_from(["", " ", "\t", "\xa0", "[XSUM]", "x[XSUM]y"]),
    st.text(max_size=12),
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(LINES, max_size=4), st.lists(LINES, max_size=6), ENDS, st.booleans())
@example(["Email"], ["Email"], "\n", False)
def test_any_article_is_read_as_by_the_catalog_builder(
    tmp_path: Path, introduction: list[str], body: list[str], end: str, finished: bool
) -> None:
    from tensorflow_datasets.summarization.xsum import Xsum as CatalogXsum

    lines = ["[XSUM]URL[XSUM]", "http://a.example", "[XSUM]INTRODUCTION[XSUM]", *introduction]
    lines += ["[XSUM]RESTBODY[XSUM]", *body]
    content = (end.join(lines) + (end if finished else "")).encode("utf-8")
    (tmp_path / "1.data").write_bytes(content)
    catalog = CatalogXsum._generate_examples(None, split_ids=["1"], path=str(tmp_path))
    theirs = next(catalog)[1]
    try:
        document, summary = xsum_format.decode_article("1", content)
    except ExampleError:
        # A delimiter inside the introduction moves the segments: theirs is then a wrong example.
        assert any("[XSUM]" in line for line in introduction)
    else:
        assert {"document": document, "summary": summary} == theirs


def test_the_split_ids_are_registered_as_in_the_catalog() -> None:
    from tensorflow_datasets.core.download.checksums import load_url_infos

    ours = load_url_infos(Path(xsum_module.__file__).with_name("checksums.tsv"))
    theirs = load_url_infos(Path(tfds.__file__).parent / "url_checksums" / "xsum.txt")
    assert ours[SPLIT_IDS_URL] == theirs[SPLIT_IDS_URL]
    assert ours[SPLIT_IDS_URL].filename == theirs[SPLIT_IDS_URL].filename == IDS_FILE


def test_the_catalogs_name_stays_the_catalogs() -> None:
    assert tfds.builder_cls("xsum").__module__ == "tensorflow_datasets.summarization.xsum"
    assert Xsum.name == "xsum"
