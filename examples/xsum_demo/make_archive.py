"""Packs the demonstration's articles as the XSum builder expects them in manual_dir.

    python examples/xsum_demo/make_archive.py OUT_DIR

writes OUT_DIR/xsum-extracts-from-downloads.tar.gz and OUT_DIR/xsum-demo-split-ids.json. Every run
writes the same bytes. The split ids name one article that does not exist, as the real ones name
hundreds, so that a build shows how missing articles are counted.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from pathlib import Path

ARTICLES = Path(__file__).parent / "articles"
SPLITS = ("train", "validation", "test")
VANISHED = {"train": ["90000199"]}
FOLDER = "xsum-extracts-from-downloads"


def split_ids() -> dict[str, list[str]]:
    """Split name -> ids: the articles of each folder, and those that have vanished."""
    return {
        split: sorted(
            [article.stem for article in (ARTICLES / split).glob("*.data")]
            + VANISHED.get(split, [])
        )
        for split in SPLITS
    }


def write_archive(path: Path) -> None:
    """Writes the tar.gz: sorted members without time, owner or compressor name."""
    articles = sorted(ARTICLES.glob("*/*.data"), key=lambda article: article.name)
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for article in articles:
            content = article.read_bytes()
            member = tarfile.TarInfo(f"{FOLDER}/{article.name}")
            member.size = len(content)
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(content))


def main(arguments: list[str]) -> int:
    """Runs the script; returns its exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write("usage: make_archive.py OUT_DIR\n")
        return 2
    out_dir = Path(arguments[0])
    out_dir.mkdir(parents=True, exist_ok=True)
    archive = out_dir / f"{FOLDER}.tar.gz"
    ids = out_dir / "xsum-demo-split-ids.json"
    write_archive(archive)
    ids.write_text(json.dumps(split_ids(), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"manual_dir     {out_dir.resolve()}\n")
    sys.stdout.write(f"split_ids_url  {ids.resolve().as_uri()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
