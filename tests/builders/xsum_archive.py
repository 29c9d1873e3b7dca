"""Archives and articles as the XSum builder reads them, made by hand."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from provender.builders.xsum import Xsum

DEMO = Path(__file__).parents[2] / "examples" / "xsum_demo"
FOLDER = "xsum-extracts-from-downloads"
ARCHIVE = FOLDER + ".tar.gz"
IDS_FILE = "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json"


def article(summary: str = "A summary.", body: str = "A line.\nAnother.\n") -> bytes:
    text = f"[XSUM]URL[XSUM]\nhttp://news.example/1\n\n[XSUM]INTRODUCTION[XSUM]\n{summary}\n\n[XSUM]RESTBODY[XSUM]\n{body}"
    return text.encode()


def circulating(mark: str = "SN") -> bytes:
    """An article of the archive that circulates: other marks, and a title before the summary."""
    fields = ("URL", "TITLE", "FIRST-SENTENCE", "RESTBODY")
    return "".join(f"[{mark}]{field}[{mark}]\nthe {field}\n\n" for field in fields).encode()


def pack(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def data(key: str) -> str:
    return f"{FOLDER}/{key}.data"


class Downloads:
    """What a builder uses of a download manager: every URL is one prepared file."""

    def __init__(self, manual_dir: Path, ids: Path) -> None:
        self.manual_dir = manual_dir
        self.ids = ids
        self.urls: list[str] = []

    def download(self, url: str) -> Path:
        self.urls.append(url)
        return self.ids


def generate(builder: Xsum, archive: Path, ids: list[str]) -> dict[str, dict[str, str]]:
    return dict(builder._generate_examples(split="train", split_ids=ids, archive=archive))
