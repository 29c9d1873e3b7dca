"""What may be shown of a URL, and what may be kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.builders.download import mask_url, public_url
from provender.builders.download.urls import (
    mirror_candidates,
    safe_filename,
    scrub,
    split_userinfo,
    url_filename,
)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://u:p@h/x?a=1", "https://h/x?a=1"),
        ("https://h/x?token=abc&v=2", "https://h/x?token=***&v=2"),
        ("https://h/x?X-Amz-Signature=abc&sig=q", "https://h/x?X-Amz-Signature=***&sig=***"),
        ("https://h/x?api_key=abc#access_token=q", "https://h/x?api_key=***#access_token=***"),
        ("https://h/x@1.0/y?keyword=abc", "https://h/x@1.0/y?keyword=abc"),
        ("ftp://u:p@h:21/x", "ftp://h:21/x"),
        ("/data/a?token=b", "/data/a?token=b"),
    ],
)
def test_masked(url: str, masked: str) -> None:
    assert mask_url(url) == masked


def test_urls_of_two_files_stay_two_keys() -> None:
    one, two = public_url("https://h/get?key=train.zip"), public_url("https://h/get?key=test.zip")
    assert one != two
    assert "train.zip" not in one


def test_signing_a_file_anew_does_not_make_it_another_file() -> None:
    first = "https://b.s3.amazonaws.com/f?X-Amz-Date=1&X-Amz-Signature=aa&versionId=7"
    again = "https://b.s3.amazonaws.com/f?X-Amz-Date=2&X-Amz-Signature=bb&versionId=7"
    assert public_url(first) == public_url(again) == "https://b.s3.amazonaws.com/f?versionId=7"


_SECRET = st.text("abcdefghijklmnopqrstuvwxyz0123456789%-_.~", min_size=8, max_size=30)


@given(_SECRET, _SECRET, st.sampled_from(["token", "Signature", "api-key", "password", "sig"]))
def test_no_secret_passes(password: str, value: str, name: str) -> None:
    url = f"https://user:{password}@host/path/f.zip?{name}={value}&n=1"
    for text in (mask_url(url), public_url(url), scrub(f"GET {url} failed ({value})", url)):
        shown = text.replace("***", "")
        assert value not in shown
        assert f":{password}" not in shown
    assert public_url(public_url(url)) == public_url(url)


@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_a_safe_name_is_one_component(name: str) -> None:
    safe = safe_filename(name)
    assert safe
    assert "/" not in safe
    assert safe not in (".", "..")
    assert len(safe.encode()) <= 255
    assert safe_filename(safe) == safe


def test_long_names_keep_their_extension() -> None:
    assert safe_filename("x" * 500 + ".tar.gz").endswith(".tar.gz")


def test_userinfo_and_names() -> None:
    assert split_userinfo("ftp://me:p%40ss@h/x") == ("ftp://h/x", ("me", "p@ss"))
    assert url_filename("https://h/a%20b.zip?x=/y") == "a b.zip"
    assert url_filename("gs://b/a%41#x") == "a%41#x"
    assert url_filename("https://h") == ""


def test_mirrors_come_first_the_longest_prefix_leading() -> None:
    mirrors = {"https://h/": ["/mnt/m/", "gs://m/"], "https://h/data/": "http://near/"}
    assert mirror_candidates("https://h/data/f", mirrors) == [
        "http://near/f",
        "/mnt/m/data/f",
        "gs://m/data/f",
        "https://h/data/f",
    ]
    assert mirror_candidates("https://other/f", mirrors) == ["https://other/f"]
