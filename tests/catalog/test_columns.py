"""Values survive the way into a database and back."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provender.catalog.columns import UtcTime, to_json

_floats = st.floats(allow_nan=True, allow_infinity=True)
_leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | _floats | st.text()
_documents = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
_zones = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
_times = st.datetimes(datetime(1900, 1, 2), datetime(2200, 1, 1), timezones=_zones)


def finite(value):
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list) else value


@given(_documents)
def test_json_is_strict_and_keeps_everything_else(document):
    def refuse(word):
        raise AssertionError(word)

    assert json.loads(to_json(document), parse_constant=refuse) == finite(document)


class _Dialect:
    def __init__(self, name):
        self.name = name


@given(_times, st.sampled_from(["sqlite", "postgresql"]))
def test_times_come_back_in_utc(moment, name):
    column, dialect = UtcTime(), _Dialect(name)
    back = column.process_result_value(column.process_bind_param(moment, dialect), dialect)
    assert back == moment
    assert back.tzinfo is UTC


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(document=st.dictionaries(st.text(), _documents, max_size=3), moment=_times)
def test_both_databases_keep_documents_and_times(catalog, document, moment):
    stage = catalog.record_stage(
        None, "toy", None, "s", "fp", state="succeeded", result=document, started=moment
    )
    found = catalog.stage(stage.id)
    assert found.result == finite(document)
    assert list(found.result) == list(document)
    assert found.started == moment
