from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provender.catalog import Lineage, LineageEdge, LineageNode
from provender.cli.documents import plain
from provender.cli.lineage_tree import tree_lines
from provender.cli.lines import Lines
from provender.cli.stage_rows import Row, cells
from provender.cli.tables import Column, clean, plain_lines
from provender.cli.units import bytes_text, iso, seconds_text
from provender.cli.watching import Watch


def test_shards_of_one_state_and_cause_become_ranges() -> None:
    rows = [Row(f"shards/train/{i:05}", "hit") for i in range(8)]
    rows[5] = Row("shards/train/00005", "run", ("it is gone",))
    rows.append(Row("shards/test/00008", "hit"))
    assert list(cells(rows, verbose=False)) == [
        ("shards/train/00000..00004", "5 hits", ""),
        ("shards/train/00005", "run", "it is gone"),
        ("shards/train/00006..00007", "2 hits", ""),
        ("shards/test/00008", "hit", ""),
    ]
    assert len(list(cells(rows, verbose=True))) == len(rows)


def test_many_reasons_are_cut_unless_verbose() -> None:
    row = Row("download", "run", tuple(f"url {i} changed" for i in range(20)))
    [(_, _, short)] = cells([row], verbose=False)
    assert short.endswith("and 16 more (--verbose shows all)")
    [(_, _, whole)] = cells([row], verbose=True)
    assert whole.count("\n") == 19


def test_long_explanations_wrap_below_their_column() -> None:
    columns = [Column("stage"), Column("why", wraps=True)]
    lines = list(plain_lines(columns, [("splits", "word " * 30)], width=60))
    assert len(lines) > 2
    assert all(len(line) <= 60 for line in lines)
    assert all(line.startswith("        ") for line in lines[2:])


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5), st.integers(10, 200))
def test_plain_tables_never_hold_control_codes(rows: list[tuple[str, str]], width: int) -> None:
    columns = [Column("a"), Column("b", wraps=True)]
    for line in plain_lines(columns, rows, width=width):
        assert not any((ord(c) < 32 and c != "\t") or 0x7F <= ord(c) < 0xA0 for c in line)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (20 << 30, "20 GiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.041, "0.04 s"),
        (12.34, "12.3 s"),
        (59.97, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7830, "2 h 10 min"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


def test_times_in_json_are_utc() -> None:
    when = datetime(2026, 3, 1, 14, 30, tzinfo=timezone(timedelta(hours=2)))
    assert iso(when) == "2026-03-01T12:30:00Z"
    assert plain({"at": when.astimezone(UTC)}) == {"at": "2026-03-01T12:30:00Z"}


def _plan(**states: str) -> SimpleNamespace:
    steps = [SimpleNamespace(key=key, state=state, reasons=()) for key, state in states.items()]
    return SimpleNamespace(steps=steps)


def test_parts_are_added_up_and_told_as_their_split() -> None:
    clock = iter(float(i) for i in range(100))
    watch, said = Watch(clock=lambda: next(clock)), []
    tell = Lines(watch, said.append, verbose=False)
    first = {"reasons": [{"kind": "first"}]}
    tell({"event": "plan", "plan": _plan(download="hit", examples="wait")})
    for part in (0, 1):
        tell({"event": "start", "stage": f"examples/train/part-{part}-of-2", **first})
        tell({"event": "progress", "stage": f"examples/train/part-{part}-of-2", "done": 10 + part,
              "total": None, "unit": "examples"})  # fmt: skip
    assert watch.views["examples/train"].done == 21
    for part in (0, 1):
        tell(
            {
                "event": "done",
                "stage": f"examples/train/part-{part}-of-2",
                "seconds": 1.0,
                "result": {},
            }
        )
    tell({"event": "start", "stage": "examples/train", **first})
    tell({"event": "done", "stage": "examples/train", "seconds": 0.1, "result": {"examples": 21}})
    assert [line.split()[:2] for line in said] == [
        ["start", "examples/train"],
        ["ran", "examples/train"],
    ]
    assert said[-1].endswith("21 examples")
    rows = watch.rows(["download", "examples/train"])
    assert [(row.key, row.state) for row in rows] == [
        ("download", "hit"),
        ("examples/train", "ran"),
    ]


def test_waiting_for_another_build_is_told() -> None:
    said: list[str] = []
    tell = Lines(Watch(), said.append, verbose=False)
    tell({"event": "wait", "stage": "build", "holder": "host 12"})
    assert said == [f"{'wait':<9} {'build':<28} host 12 is at work on it"]


def _node(id: str, name: str, kind: str = "stage") -> LineageNode:
    return LineageNode(id, kind, name, {"state": "succeeded"})


def test_lineage_is_a_tree_in_which_nothing_is_drawn_twice() -> None:
    nodes = (
        _node("v", "x:1.0.0", "version"),
        _node("r", "x:register"),
        *(_node(f"s{i}", f"x:shards/train/0000{i}") for i in range(3)),
        _node("e", "x:examples/train"),
        _node("d", "x:download"),
    )
    edges = [LineageEdge("v", n.id, None) for n in nodes[1:]]
    edges += [LineageEdge("r", f"s{i}", None) for i in range(3)]
    edges += [LineageEdge(f"s{i}", "e", None) for i in range(3)] + [LineageEdge("e", "d", None)]
    lines = list(tree_lines(Lineage(nodes, tuple(edges)), "up", verbose=False))
    assert lines == [
        "x:1.0.0  succeeded",
        "└─ x:register  succeeded",
        "   └─ x:shards/train/00000..00002  3 succeeded",
        "      └─ x:examples/train  succeeded",
        "         └─ x:download  succeeded",
    ]
    whole = list(tree_lines(Lineage(nodes, tuple(edges)), "up", verbose=True))
    assert sum("(see above)" in line for line in whole) > 0


def test_text_that_a_terminal_would_obey_is_made_harmless() -> None:
    assert clean("a\x1b[31mb\u202ec\u2066\u200fd\n") == "a\ufffd[31mb\ufffdc\ufffd\u200fd\n"
