"""Bytes from outside: fetched once, proven, kept by content, and found again.

fetch, probe            one URL: its bytes, resumable and checked; or what it is now
ChecksumFile, Checksum  what contents must be, in TFDS's formats
extract, iter_archive   archives, unpacked safely or read as streams
check_manual            files that people fetch by hand
DownloadManager         all of it, with the face that TFDS builders know
"""

from __future__ import annotations

from provender.builders.download.archive import ArchiveFiles, archive_method, iter_archive
from provender.builders.download.checksums import Checksum, ChecksumFile
from provender.builders.download.digests import DigestMemory
from provender.builders.download.fetch import Fetched, Progress, fetch, probe
from provender.builders.download.manager import DownloadManager
from provender.builders.download.manual import ManualFile, check_manual
from provender.builders.download.objects import DownloadRecord
from provender.builders.download.retry import Cancelled
from provender.builders.download.source import UpstreamIdentity
from provender.builders.download.source_http import HttpSession
from provender.builders.download.unpack import extract
from provender.builders.download.urls import mask_url, public_url

__all__ = [
    "ArchiveFiles",
    "Cancelled",
    "Checksum",
    "ChecksumFile",
    "DigestMemory",
    "DownloadManager",
    "DownloadRecord",
    "Fetched",
    "HttpSession",
    "ManualFile",
    "Progress",
    "UpstreamIdentity",
    "archive_method",
    "check_manual",
    "extract",
    "fetch",
    "iter_archive",
    "mask_url",
    "probe",
    "public_url",
]
