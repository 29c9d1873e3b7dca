"""SQL for people: it reads, and nothing it is given makes it do anything else."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import uuid

import psycopg
import pytest

from provender.catalog import VIEWS, Catalog
from provender.errors import CatalogError

WRITES = {
    "delete": "DELETE FROM version",
    "update": "UPDATE version SET status = 'x'",
    "insert": "INSERT INTO tag VALUES ('a', 'b', '2026-01-01', 'c')",
    "with insert": "WITH a AS (SELECT 1) INSERT INTO tag VALUES ('a', 'b', '2026-01-01', 'c')",
    "insert in with": "WITH a AS (INSERT INTO tag VALUES ('a', 'b', '2026-01-01', 'c') RETURNING 1)"
    " SELECT * FROM a",
    "drop": "DROP TABLE tag",
    "create": "CREATE TABLE evil (a int)",
    "create temporary": "CREATE TEMPORARY TABLE evil (a int)",
    "create as": "CREATE TABLE evil AS SELECT 1",
    "select into": "SELECT 1 INTO evil",
    "alter": "ALTER TABLE tag ADD COLUMN evil int",
    "two statements": "SELECT 1; DROP TABLE tag",
    "out of the transaction": "COMMIT; DROP TABLE tag",
    "comment": "SELECT 1 /* ; */; DELETE FROM version --",
    "vacuum": "VACUUM",
    "reindex": "REINDEX",
    "analyze": "ANALYZE",
    "begin": "BEGIN",
    "parentheses": "SELECT 1) AS a; DROP TABLE tag; SELECT (1",
    "nothing": "",
    "only a comment": "-- nothing",
    "no sql": "what is there?",
    "nul": "SELECT 'a\x00b'; DROP TABLE tag",
    "half a pair": "SELECT '\ud800'",
}
ONLY = {
    "sqlite": {
        "pragma": "PRAGMA user_version = 7",
        "pragma that writes": "PRAGMA journal_mode = DELETE",
        "pragma off": "PRAGMA query_only = OFF",
        "attach": "ATTACH '{folder}/evil.db' AS evil",
        "vacuum into": "VACUUM INTO '{folder}/evil.db'",
        "load": "SELECT load_extension('evil')",
        "index command": "INSERT INTO search_index(search_index) VALUES ('delete-all')",
        "schema": "DELETE FROM sqlite_master",
    },
    "postgresql": {
        "copy to a file": "COPY (SELECT 1) TO '{folder}/evil.csv'",
        "copy to a program": "COPY (SELECT 1) TO PROGRAM 'touch {folder}/evil'",
        "copy out": "COPY version TO STDOUT",
        "do": "DO $$ BEGIN DELETE FROM version; END $$",
        "call": "CALL evil()",
        "set": "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "set role": "SET ROLE postgres",
        "lock": "LOCK TABLE version",
        "for update": "SELECT id FROM version FOR UPDATE",
        "listen": "LISTEN evil",
        "explain that runs": "EXPLAIN ANALYZE DELETE FROM version",
        "cursor": "DECLARE evil CURSOR FOR SELECT 1",
        "prepare": "PREPARE evil AS DELETE FROM version",
        "nextval": "SELECT nextval('run_seq_seq')",
        "setval": "SELECT setval('run_seq_seq', 1)",
        "set_config": "SELECT set_config('transaction_read_only', 'off', false)",
        "sleep": "SELECT pg_sleep(30)",
        "sleep in a subquery": "SELECT * FROM version v, LATERAL (SELECT pg_sleep(30)) z",
        "sleep in order by": "SELECT 1 ORDER BY pg_sleep(30)::text",
        "sleep in a filter": "SELECT count(*) FILTER (WHERE pg_sleep(30) IS NULL) FROM dataset",
        "sleep in with": "WITH a AS MATERIALIZED (SELECT pg_sleep(30)) SELECT * FROM a",
        "sleep in parentheses": "SELECT 1) AS a, (SELECT pg_sleep(30)",
        "stop others": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
        "read a file": "SELECT pg_read_file('/etc/passwd')",
        "list a folder": "SELECT * FROM pg_ls_dir('/')",
        "large object": "SELECT lo_import('/etc/passwd')",
        "large object out": "SELECT lo_export(1, '{folder}/evil')",
        "lock for good": "SELECT pg_advisory_lock(1)",
        "notify": "SELECT pg_notify('evil', 'x')",
        "query in a function": "SELECT query_to_xml('DELETE FROM version', true, true, '')",
        "own function": "SELECT public.evil_function()",
    },
}
CASES = [
    (backend, name, text) for backend in ONLY for name, text in {**WRITES, **ONLY[backend]}.items()
]


@pytest.fixture
def same(catalog, make, rows, url, backend):
    """Nothing is different afterwards: no row, no table, no setting."""
    make("reviews", "1.0.0")
    if backend == "postgresql":
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as conn:
            conn.execute(
                "CREATE OR REPLACE FUNCTION public.evil_function() RETURNS int LANGUAGE sql AS "
                "'INSERT INTO public.tag VALUES (''a'', ''b'', now(), ''c'') RETURNING 1'"
            )

    def state():
        if backend == "sqlite":
            with sqlite3.connect(url.removeprefix("sqlite:///")) as conn:
                schema = conn.execute("SELECT * FROM sqlite_master").fetchall()
                return rows(), schema, conn.execute("PRAGMA user_version").fetchone()
        with psycopg.connect(url.replace("+psycopg", "")) as conn:
            made = "SELECT relname, relkind FROM pg_class ORDER BY 1, 2"
            last = conn.execute("SELECT last_value FROM run_seq_seq").fetchone()
            return rows(), conn.execute(made).fetchall(), last

    before = state()
    yield
    assert state() == before


@pytest.mark.parametrize(("backend", "name", "text"), CASES, ids=[f"{b}-{n}" for b, n, _ in CASES])
def test_what_does_not_only_read_is_refused(same, catalog, tmp_path, name, text):
    with pytest.raises(CatalogError, match="refused") as caught:
        catalog.sql(text.format(folder=tmp_path), timeout=20)
    assert caught.value.hint
    assert sorted(os.listdir(tmp_path)) in (
        [],
        ["catalog.db"],
        ["catalog.db", "catalog.db-shm", "catalog.db-wal"],
    )
    assert catalog.sql("SELECT version FROM v_versions").rows == (("1.0.0",),)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT 1", ((1,),)),
        (" SELECT 1 ; ", ((1,),)),
        ("SELECT 1 -- done;", ((1,),)),
        ("SELECT '%s %d {x} :y ?'", (("%s %d {x} :y ?",),)),
        ("VALUES (1), (2)", ((1,), (2,))),
        ("WITH a AS (SELECT 3 AS n) SELECT n FROM a", ((3,),)),
        ("SELECT 1 AS a, 2 AS a", ((1, 2),)),
        ("SELECT dataset FROM v_versions WHERE lower(dataset) = 'reviews'", (("reviews",),)),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) "
            "SELECT i FROM n",
            ((1,), (2,), (3,)),
        ),
        ("SELECT row_number() OVER (ORDER BY split) FROM v_splits", ((1,), (2,))),
        ("SELECT dataset FROM v_versions WHERE dataset = 'nothing'", ()),
    ],
    ids=range(11),
)
def test_what_reads_is_answered(catalog, make, text, rows):
    make("reviews", "1.0.0")
    assert catalog.sql(text).rows == rows


def test_functions_that_change_nothing_are_allowed(catalog, backend):
    if backend == "postgresql":
        found = catalog.sql("SELECT now() <= clock_timestamp(), random() < 1")
        assert found.rows == ((True, True),)
    else:
        assert catalog.sql("SELECT random() IS NOT NULL").rows == ((1,),)


def test_limits(catalog, make):
    make("reviews", "1.0.0")
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) SELECT i FROM n"
    cut = catalog.sql(many, 10)
    assert (len(cut.rows), cut.truncated) == (10, True)
    whole = catalog.sql(many, None)
    assert (len(whole.rows), whole.truncated) == (2500, False)
    exact = catalog.sql(many, 2500)
    assert (len(exact.rows), exact.truncated) == (2500, False)


def test_a_statement_that_takes_too_long_is_stopped(catalog):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(CatalogError, match=r"longer than 0\.3 seconds") as caught:
        catalog.sql(endless, timeout=0.3)
    assert "--timeout" in caught.value.hint
    assert catalog.sql("SELECT 1").rows == ((1,),)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("SELECT * FROM v_version", "v_versions"),
        ("SELECT aliasses FROM v_versions", "aliases"),
        ("SELECT * FROM nothing_like_it", "The stable views are v_versions"),
    ],
    ids=["view", "column", "other"],
)
def test_unknown_names(catalog, text, near):
    with pytest.raises(CatalogError) as caught:
        catalog.sql(text)
    assert near in caught.value.hint


def test_a_catalog_that_is_being_written_can_be_asked(catalog, make, url):
    make("reviews", "1.0.0")
    with Catalog.open(url) as other, other._engine.begin() as writing:
        writing.exec_driver_sql("DELETE FROM search_part")
        assert catalog.sql("SELECT count(*) FROM v_versions").rows == ((1,),)


def test_odd_names_of_files(tmp_path):
    place = tmp_path / "100% #odd ?name"
    place.mkdir()
    file = place / "catalog.db"
    Catalog.open(file).close()
    program = (
        "import sys; from provender.catalog.sql import _ask_sqlite; "
        "print(_ask_sqlite(sys.argv[1], 'SELECT count(*) FROM version', 1, 5).rows)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "((0,),)\n", done.stderr


def test_views_are_what_is_documented(catalog):
    for view, columns in VIEWS.items():
        assert catalog.sql(f"SELECT * FROM {view}").columns == tuple(columns)


@pytest.fixture
def reader(catalog, make, url, backend):
    """The URL of an account that may only read; PostgreSQL alone has accounts."""
    make("reviews", "1.0.0")
    name = f"reader_{uuid.uuid4().hex[:8]}"
    database = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {name} LOGIN")
        conn.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")

        def do(statement):
            conn.execute(statement.format(name=name, database=database))

        yield url.replace("postgres@", f"{name}@"), do
        conn.execute(f"GRANT TEMPORARY ON DATABASE {database} TO PUBLIC")
        conn.execute(f"DROP OWNED BY {name}")
        conn.execute(f"DROP ROLE {name}")


@pytest.mark.parametrize("backend", ["postgresql"])
def test_an_account_that_may_only_read(reader):
    address, do = reader
    with Catalog.open(address) as catalog:
        assert catalog.sql("SELECT version FROM v_versions").rows == (("1.0.0",),)
        with pytest.raises(CatalogError, match="refused"):
            catalog.sql("DELETE FROM version")
    do("ALTER ROLE {name} SET default_transaction_read_only = on")
    with Catalog.open(address) as catalog:
        assert catalog.sql("SELECT version FROM v_versions").rows == (("1.0.0",),)


@pytest.mark.parametrize("backend", ["postgresql"])
def test_an_account_that_may_make_nothing_temporary(reader):
    address, do = reader
    do("REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC")
    with Catalog.open(address) as catalog, pytest.raises(CatalogError) as caught:
        catalog.sql("SELECT version FROM v_versions")
    assert "GRANT TEMPORARY" in caught.value.hint
