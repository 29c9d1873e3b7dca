"""XSum: news articles with a one-sentence summary (Narayan, Cohen and Lapata, 2018).

The same dataset as `xsum` of the TFDS catalog: name, version, features, keys and examples. It
differs in how it reads. The archive is streamed, not extracted into hundreds of thousands of
files, and an archive of another dialect is refused before it becomes a wrong dataset.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from provender.builders import _xsum_format as xsum_format
from provender.errors import InputError

SPLIT_IDS_URL = (
    "https://raw.githubusercontent.com/EdinburghNLP/XSum/master/XSum-Dataset/"
    "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json"
)
SPLITS = ("train", "validation", "test")

_MISSING_SHOWN = 5

_DESCRIPTION = """\
Articles of a news site with the one-sentence summary that stands first in each ("extreme"
summarization). `document` is the article without that sentence, `summary` the sentence. Sharing
buttons and other remains of the web page are removed from both.
"""

_CITATION = """\
@inproceedings{narayan2018dont,
  author = {Narayan, Shashi and Cohen, Shay B. and Lapata, Mirella},
  title = {Don't Give Me the Details, Just the Summary! Topic-Aware Convolutional Neural Networks
           for Extreme Summarization},
  booktitle = {Proceedings of the 2018 Conference on Empirical Methods in Natural Language
               Processing},
  year = {2018},
}
"""

logger = logging.getLogger(__name__)


class Xsum(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """XSum from the archive that its authors' extraction scripts write.

    Args:
        split_ids_url: where the JSON ``{"train": [ids], "validation": [ids], "test": [ids]}`` is
            downloaded from; None for the published one. A ``file://`` URL serves for subsets.
        **kwargs: as for every TFDS builder (``data_dir``, ``version``, ``file_format``).
    """

    name = "xsum"
    VERSION = tfds.core.Version("1.1.0")
    RELEASE_NOTES = {"1.1.0": "Without the remains of the web pages."}  # noqa: RUF012

    MANUAL_FILES = (xsum_format.ARCHIVE_NAME,)
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"""\
The articles may not be redistributed, so each user collects them: run the download and the
extraction script described at
https://github.com/EdinburghNLP/XSum/blob/master/XSum-Dataset/README.md
pack the folder they leave behind,
  tar czf {xsum_format.ARCHIVE_NAME} {xsum_format.FOLDER}
and put that archive into manual_dir. The archive that circulates as bbc-summary-data has other
fields and does not do. Where there is no network, the list of split ids may lie beside it under
the name {SPLIT_IDS_URL.rsplit("/", 1)[-1]}.
"""

    def __init__(self, *, split_ids_url: str | None = None, **kwargs: Any) -> None:
        self._split_ids_url = split_ids_url
        super().__init__(**kwargs)
        # TFDS pickles a builder as the arguments it remembers here.
        self._original_state["split_ids_url"] = split_ids_url

    @classmethod
    def check_manual(cls, manual_dir: Path) -> list[str]:
        """Looks into the archive before anything is downloaded or generated.

        Checks the field names of the first few articles and reads the archive to its end once
        (a few seconds for the whole of XSum).

        Args:
            manual_dir: folder that holds `MANUAL_FILES`.

        Returns:
            The problems found, one sentence each; empty when the archive can be used.
        """
        return xsum_format.archive_problems(manual_dir / xsum_format.ARCHIVE_NAME)

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {"document": tfds.features.Text(), "summary": tfds.features.Text()}
            ),
            supervised_keys=("document", "summary"),
            homepage="https://github.com/EdinburghNLP/XSum/tree/master/XSum-Dataset",
            citation=_CITATION,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[str, dict[str, str]]]]:
        url = self._split_ids_url or SPLIT_IDS_URL
        split_ids = read_split_ids(dl_manager.download(url), url)
        archive = dl_manager.manual_dir / xsum_format.ARCHIVE_NAME
        return {
            split: self._generate_examples(split=split, split_ids=split_ids[split], archive=archive)
            for split in SPLITS
        }

    def _generate_examples(
        self, split: str, split_ids: list[str], archive: str | PathLike[str]
    ) -> Iterator[tuple[str, dict[str, str]]]:
        """Yields ``(id, {"document": str, "summary": str})`` in archive order, in one pass.

        Shards are ordered by a hash of the key, so archive order gives the same files as the
        order of the split ids would. Ids without an article are counted, not an error: pages
        vanish from the web archive that the articles are collected from.

        Args:
            split: name of the split, for the log.
            split_ids: ids of the split, each once.
            archive: path of the tar.gz.

        Raises:
            ArchiveError, ManualFilesMissing: the archive is damaged or not there.
            ExampleError: an article without the three fields, or not UTF-8.
        """
        wanted = frozenset(split_ids)
        seen = set()
        for key, member, content in xsum_format.iter_articles(archive, wanted.__contains__):
            document, summary = xsum_format.decode_article(member, content)
            seen.add(key)
            yield key, {"document": document, "summary": summary}
        log_missing(split, split_ids, seen)


def log_missing(split: str, split_ids: list[str], seen: set[str]) -> None:
    """Logs how many ids of a split had no article: a summary as warning, each id at debug."""
    missing = [key for key in split_ids if key not in seen]
    if not missing:
        return
    for key in missing:
        logger.debug("xsum/%s: no article for id %s", split, key)
    shown = ", ".join(missing[:_MISSING_SHOWN])
    more = ", ..." if len(missing) > _MISSING_SHOWN else ""
    logger.warning(
        "xsum/%s: %d of %d articles are not in the archive: %s%s",
        split,
        len(missing),
        len(split_ids),
        shown,
        more,
    )


def read_split_ids(path: str | PathLike[str], url: str) -> dict[str, list[str]]:
    """Reads and checks the JSON of split ids.

    Args:
        path: the downloaded file; local or anything else that `tfds.core.Path` opens.
        url: where it came from, for errors.

    Returns:
        Split name -> ids, for each of `SPLITS`, in the order of the file.

    Raises:
        InputError: not JSON, a split is absent, not a list of strings, or names an id twice.
    """
    try:
        found = json.loads(tfds.core.Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        message = f"the split ids are not JSON: {error}"
        raise InputError(message, where=url) from error
    if not isinstance(found, dict):
        message = (
            f"the split ids are a {type(found).__name__} where an object of lists was expected"
        )
        raise InputError(message, where=url)
    for split in SPLITS:
        ids = found.get(split)
        if not isinstance(ids, list) or not all(isinstance(key, str) for key in ids):
            message = f"the split ids have no list of strings under {split!r}"
            raise InputError(message, where=url)
        if len(set(ids)) < len(ids):
            twice = next(key for number, key in enumerate(ids) if key in ids[:number])
            message = f"the split {split!r} names the id {twice!r} twice"
            raise InputError(message, where=url)
    return {split: found[split] for split in SPLITS}
