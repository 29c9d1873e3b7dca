"""Consumption and downloads."""

from __future__ import annotations

import pytest

from provender.errors import UnknownReference


def test_consumption(catalog, publish):
    first, second = publish("1.0.0"), publish("1.1.0")
    catalog.record_consumption(first.id, "job-a", splits=["train[:50%]"], facts={"step": 1})
    id = catalog.record_consumption(second.id, "job-b")
    newest, oldest = catalog.consumptions()
    assert (newest.id, newest.name, newest.splits) == (id, "toy:1.1.0", ())
    assert (oldest.job, oldest.splits, oldest.facts) == ("job-a", ("train[:50%]",), {"step": 1})
    assert catalog.consumptions(version_id=first.id) == [oldest]
    assert catalog.consumptions(job="job-b") == [newest]
    assert len(catalog.consumptions(limit=1)) == 1
    with pytest.raises(UnknownReference):
        catalog.record_consumption("nope", "job")


def test_downloads(catalog):
    assert catalog.downloads(["u"]) == {}
    catalog.record_download("u", "aa", 2**40, "f.zip", "etag-1", {"a": 1})
    catalog.record_download("u", "bb", 3, "f.zip", "etag-2")
    catalog.record_download("v", "cc", 4, "g.zip")
    found = catalog.downloads(["u", "v", "w"])
    assert set(found) == {"u", "v"}
    assert (found["u"].sha256, found["u"].size, found["u"].identity) == ("bb", 3, "etag-2")
    assert found["u"].facts == {}
