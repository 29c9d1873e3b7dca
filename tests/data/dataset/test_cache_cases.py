"""What is computed again and what is not: programs in fresh processes, one cache."""

from __future__ import annotations

import os
import re
import shutil

import pytest
from tests.data.dataset.programs import DATA, HEAD, MAP, NUMBERS, Lab, changed


def test_the_same_map_in_a_second_process(lab: Lab) -> None:
    first, second = lab.run(DATA + MAP, fresh=True), lab.run(fresh=True)
    assert (first.calls, second.calls) == (100, 0)
    assert first.told == second.told == lab.run().told
    assert first.told["last"] == {"a": 99, "t": "99", "b": 198}


SAME = """
batch_size=7
num_proc=2
writer_batch_size=3
desc='another text'
drop_last_batch=True
load_from_cache_file=True
keep_in_memory=True
remove_columns=[]
fn_kwargs={}
"""


def test_what_cannot_change_the_result_does_not_count(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    again = "\n".join(
        f"assert len(ds.map(double, {each})) == 100" for each in SAME.split("\n")[1:-1]
    )
    assert lab.run(DATA + MAP + again).calls == 0


def test_what_can_change_the_result_counts(lab: Lab) -> None:
    program = """
def double(rows):
    called()
    return {"b": rows["a"] if hasattr(rows, "keys") else rows}

prints = [
    ds.map(double, **options)._fingerprint
    for options in [
        {},
        {"batched": True},
        {"batched": True, "batch_size": 50},
        {"batched": True, "drop_last_batch": True},
        {"remove_columns": ["t"]},
        {"input_columns": ["a"]},
        {"features": data.Features({"a": data.Value("int8"), "t": data.Value("string"),
                                    "b": data.Value("int8")})},
    ]
]
tell(prints=prints)
"""
    ran = lab.run(DATA + program)
    assert len(set(ran.told["prints"])) == 7
    # The only batch is not full, so with drop_last_batch nothing is called.
    assert ran.calls == 100 + 1 + 2 + 0 + 300


def test_batch_size_counts_only_where_there_are_batches(lab: Lab) -> None:
    program = """
def first(batch):
    called()
    return {"n": batch["a"][:1]}

out = ds.map(first, batched=True, batch_size=20, remove_columns=["a", "t"])
tell(n=out["n"][:])
"""
    assert lab.run(DATA + program).told == {"n": [0, 20, 40, 60, 80]}
    again = lab.run(DATA + changed(program, "batch_size=20", "batch_size=50"))
    assert again.told == {"n": [0, 50]}
    assert again.calls == 2


def test_the_order_of_arguments_does_not_count(lab: Lab) -> None:
    program = """
def double(row, x, y):
    called()
    return {"b": row["a"] * x + y}

out = ds.map(double, fn_kwargs={"x": 2, "y": 3}, remove_columns=["a", "t"])
"""
    assert lab.run(DATA + program).calls == 100
    program = changed(program, '{"x": 2, "y": 3}', '{"y": 3, "x": 2}')
    assert lab.run(DATA + changed(program, '["a", "t"]', '["t", "a"]')).calls == 0
    assert lab.run(DATA + changed(program, '"x": 2', '"x": 4')).calls == 100


def test_a_moved_cache_is_a_hit(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    lab.cache.rename(lab.folder / "elsewhere")
    lab.env["PROVENDER_CACHE"] = str(lab.folder / "elsewhere")
    assert lab.run().calls == 0


def test_a_copied_cache_is_a_hit(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    shutil.copytree(lab.cache, lab.folder / "copy")
    shutil.rmtree(lab.cache)
    lab.env["PROVENDER_CACHE"] = str(lab.folder / "copy")
    assert lab.run().calls == 0


def test_a_touched_input_is_a_hit(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    os.utime(lab.folder / "data.parquet", (1, 1))
    assert lab.run().calls == 0


def test_a_renamed_input_is_a_hit(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    (lab.folder / "data.parquet").rename(lab.folder / "moved.parquet")
    lab.env["DATA"] = "moved.parquet"
    assert lab.run().calls == 0


def test_a_changed_input_with_its_old_time_is_noticed(lab: Lab) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = lab.folder / "data.parquet"
    before = path.stat()
    assert lab.run(DATA + MAP).told["last"]["b"] == 198
    old = path.read_bytes()
    pq.write_table(pa.table({"a": list(range(1, 101)), "t": [str(i) for i in range(100)]}), path)
    new = path.read_bytes()
    path.write_bytes(new + b"" if len(new) != len(old) else new)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = lab.run()
    assert again.calls == 100
    assert again.told["last"]["b"] == 200


def test_an_in_memory_dataset_is_a_hit_in_a_second_process(lab: Lab) -> None:
    memory = """
ds = Dataset.from_dict({"a": list(range(100)), "t": [str(i) for i in range(100)]})
"""
    assert [lab.run(memory + MAP).calls, lab.run().calls] == [100, 0]
    other = changed(memory, "str(i)", "str(-i)")
    assert lab.run(other + MAP).calls == 100


@pytest.mark.parametrize(
    "source",
    [
        'Dataset.from_list([{"a": i, "t": str(i)} for i in range(100)])',
        "Dataset.from_generator(rows)",
        'Dataset.from_pandas(__import__("pandas").DataFrame({"a": range(100)}))',
        'Dataset.from_json("data.jsonl")',
    ],
    ids=["list", "generator", "pandas", "json"],
)
def test_every_origin_is_a_hit_in_a_second_process(lab: Lab, source: str) -> None:
    (lab.folder / "data.jsonl").write_text("".join(f'{{"a": {i}}}\n' for i in range(100)))
    program = f"""
def rows():
    for i in range(100):
        yield {{"a": i}}

ds = {source}
"""
    assert [lab.run(program + MAP).calls, lab.run().calls] == [100, 0]


def test_an_unhashable_function_warns_once_and_leaves_nothing(lab: Lab) -> None:
    program = """
LINES = (line for line in "ab")

def double(row):
    called()
    next(LINES, None)
    return {"b": row["a"] * 2}

first = ds.map(double)
second = ds.map(double)
assert first._fingerprint != second._fingerprint
tell(files=[each["filename"] for each in first.cache_files])
"""
    lab.run(DATA + "tell(x=1)")
    before = lab.segments()
    for _ in range(2):
        ran = lab.run(DATA + program)
        assert ran.calls == 200
        assert ran.err.count("Warning") == 1
        assert re.search(r"global LINES", ran.err)
        assert ran.told["files"]
        assert not any(os.path.exists(each) for each in ran.told["files"])
    assert lab.segments() == before


def test_caching_off(lab: Lab) -> None:
    program = (
        """
data.disable_caching()
assert not data.is_caching_enabled()
"""
        + DATA
        + MAP
        + """
again = ds.map(double)
tell(one=out.cache_files, two=again.cache_files)
out.save_to_disk("kept")
"""
    )
    ran = lab.run(program)
    assert ran.calls == 200
    assert ran.told["one"] != ran.told["two"]
    for each in (*ran.told["one"], *ran.told["two"]):
        assert not os.path.exists(each["filename"])
    assert lab.run(program).calls == 200
    assert lab.run("tell(rows=len(Dataset.load_from_disk('kept')))").told == {"rows": 100}
    assert lab.segments() == []


def test_a_saved_folder_and_its_copy(lab: Lab) -> None:
    lab.run(DATA + "ds.save_to_disk('saved')")
    load = "ds = Dataset.load_from_disk(os.environ.get('SAVED', 'saved'))\n"
    assert [lab.run(load + MAP).calls, lab.run().calls] == [100, 0]
    shutil.copytree(lab.folder / "saved", lab.folder / "deep" / "copy")
    lab.env["SAVED"] = "deep/copy"
    assert lab.run().calls == 0


def test_a_saved_folder_has_the_fingerprint_of_what_was_saved(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    lab.run(DATA + "ds.save_to_disk('saved', num_shards=3)")
    assert lab.run("ds = Dataset.load_from_disk('saved')\n" + MAP).calls == 0


def test_equal_selections_are_equal(lab: Lab) -> None:
    program = """
import numpy as np
ways = [
    ds.select(range(10)), ds.select(list(range(10))), ds.select(np.arange(10)),
    ds.take(10), ds.skip(0).select(range(10)) if False else ds.select(iter(range(10))),
    ds.shard(10, 0), ds.select(range(-100, -90)),
]
tell(prints=[each._fingerprint for each in ways], rows=[each["a"][:] for each in ways])
strided = [ds.select(range(0, 100, 10)), ds.shard(10, 0, contiguous=False)]
tell(strided=[each._fingerprint for each in strided])
other = [ds.select([0, 1, 3]), ds.select(range(9)), ds.select(range(1, 11)), ds.select([])]
tell(other=[each._fingerprint for each in other])
"""
    found = lab.run(DATA + program).told
    assert len(set(found["prints"])) == 1
    assert all(each == list(range(10)) for each in found["rows"])
    assert len(set(found["strided"])) == 1
    assert len({*found["prints"], *found["strided"], *found["other"]}) == 6


def test_another_number_of_workers_is_a_hit(lab: Lab) -> None:
    assert lab.run(DATA + changed(MAP, "double)", "double, num_proc=3)")).calls == 100
    assert lab.run(DATA + MAP).calls == 0
    assert lab.run(DATA + changed(MAP, "double)", "double, num_proc=2)")).calls == 0


def test_a_seedless_shuffle_after_setting_numpys_seed(lab: Lab) -> None:
    program = (
        DATA
        + """
import numpy as np
np.random.seed(int(os.environ.get("SEED", "5")))
ds = ds.shuffle()
"""
        + MAP
    )
    first = lab.run(program)
    assert [first.calls, lab.run().calls] == [100, 0]
    lab.env["SEED"] = "6"
    other = lab.run()
    assert other.calls == 100
    assert other.told["fingerprint"] != first.told["fingerprint"]


def test_setting_seeds_gives_no_wrong_hits(lab: Lab) -> None:
    program = (
        DATA
        + """
import random
import numpy as np
LINES = (line for line in "ab")

def opaque(row, add):
    next(LINES, None)
    called()
    return {"b": row["a"] + add}

outs = []
for add in (1, 2):
    random.seed(0)
    np.random.seed(0)
    outs.append(ds.map(opaque, fn_kwargs={"add": add})[0]["b"])
tell(outs=outs)
"""
    )
    ran = lab.run(program)
    assert ran.told == {"outs": [1, 2]}
    assert ran.calls == 200


def test_computing_anew_on_demand(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    forced = DATA + changed(MAP, "double)", "double, load_from_cache_file=False)")
    assert lab.run(forced).calls == 100
    assert lab.run(DATA + MAP).calls == 0


def test_keep_in_memory_leaves_no_file(lab: Lab) -> None:
    lab.run(DATA)
    before = lab.segments()
    program = (
        DATA
        + changed(MAP, "double)", "double, keep_in_memory=True)")
        + "tell(files=out.cache_files)"
    )
    ran = lab.run(program)
    assert (ran.calls, ran.told["files"]) == (100, [])
    assert lab.segments() == before
    assert lab.run().calls == 100


def test_a_chosen_fingerprint(lab: Lab) -> None:
    program = DATA + changed(MAP, "double)", "double, new_fingerprint='my result 1')")
    ran = lab.run(program)
    assert (ran.calls, ran.told["fingerprint"]) == (100, "my result 1")
    # The user vouches for it: even another function is not run.
    assert lab.run(changed(program, "* 2}", "* 3}")).calls == 0
    assert lab.run(changed(program, "my result 1", "my result 2")).calls == 100


def test_a_format_that_the_function_sees_counts(lab: Lab) -> None:
    program = DATA + "ds = ds.with_format(os.environ.get('KIND') or None)\n" + NUMBERS
    assert lab.run(program).calls == 100
    lab.env["KIND"] = "numpy"
    assert lab.run().calls == 100
    assert lab.run().calls == 0
    lab.env["KIND"] = "python"
    assert lab.run().calls == 0


def test_columns_of_a_format_do_not_count(lab: Lab) -> None:
    assert lab.run(DATA + "ds = ds.with_format('numpy')\n" + NUMBERS).calls == 100
    assert lab.run(DATA + "ds = ds.with_format('numpy', columns=['a'])\n" + NUMBERS).calls == 0


def test_an_edited_imported_function_is_noticed(lab: Lab) -> None:
    lab.write(
        HEAD + "def double(row):\n    called()\n    return {'b': row['a'] * 1}\n", "helper.py"
    )
    program = (
        DATA
        + """
from helper import double
out = ds.map(double)
tell(b=out[10]["b"])
"""
    )
    assert [lab.run(program).calls, lab.run().calls] == [100, 0]
    path = lab.folder / "helper.py"
    path.write_text(path.read_text().replace("* 1", "* 100"))
    again = lab.run()
    assert (again.calls, again.told["b"]) == (100, 1000)


def test_a_value_of_an_imported_module_is_noticed(lab: Lab) -> None:
    lab.write("THRESHOLD = 1\n", "helper.py")
    program = (
        DATA
        + """
import helper

def over(row):
    called()
    return {"b": row["a"] > helper.THRESHOLD}

out = ds.map(over)
tell(n=sum(out["b"]))
"""
    )
    assert lab.run(program).told["n"] == 98
    lab.write("THRESHOLD = 50\n", "helper.py")
    again = lab.run()
    assert (again.calls, again.told["n"]) == (100, 49)


def test_a_comment_is_not(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    assert lab.run(DATA + changed(MAP, "    return", "    # doubles\n    return")).calls == 0


def test_a_renamed_program_is_a_hit(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    assert lab.run(DATA + MAP, name="another.py").calls == 0
    assert lab.run(DATA + MAP, name="sub/folder.py").calls == 0


def test_chains_are_hits_all_along(lab: Lab) -> None:
    program = (
        DATA
        + """
def one(row):
    called()
    return {"b": row["a"] % 7}

def keep(row):
    called()
    return row["b"] > 2

def batch(rows):
    called(len(rows["b"]))
    return {"c": [b * 10 for b in rows["b"]]}

out = (
    ds.map(one).rename_column("t", "text").filter(keep).shuffle(seed=1).map(batch, batched=True)
    .remove_columns("a").select(range(20)).cast_column("c", data.Value("int32")).sort("c")
    .train_test_split(0.25, seed=3)["train"].class_encode_column("text")
)
tell(rows=out.to_list(), fingerprint=out._fingerprint)
"""
    )
    first, second = lab.run(program), lab.run()
    assert first.calls > 200
    assert second.calls == 0
    assert first.told == second.told


def test_another_step_before_changes_what_follows(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    assert lab.run(DATA + "ds = ds.select(range(50))\n" + MAP).calls == 50
    assert lab.run(DATA + "ds = ds.rename_column('t', 'x')\n" + MAP).calls == 100
    assert lab.run(DATA + "ds = ds.shuffle(seed=1)\n" + MAP).calls == 100


def test_a_filter_stores_row_numbers_only(lab: Lab) -> None:
    program = (
        DATA
        + """
def even(row):
    called()
    return row["a"] % 2 == 0

out = ds.filter(even)
tell(rows=len(out), last=out[-1])
"""
    )
    lab.run(DATA)
    before = {each.name for each in lab.segments()}
    first, second = lab.run(program), lab.run()
    assert [first.calls, second.calls] == [100, 0]
    assert second.told == {"rows": 50, "last": {"a": 98, "t": "98"}}
    assert sum(each.stat().st_size for each in lab.segments() if each.name not in before) < 16_000


def test_cleaning_up(lab: Lab) -> None:
    assert lab.run(DATA + MAP).calls == 100
    ran = lab.run(DATA + "tell(files=ds.cleanup_cache_files(), rows=len(ds))")
    assert ran.told["files"] >= 1
    assert ran.told["rows"] == 100
    assert lab.run(DATA + MAP).calls == 100
