"""A process that has the libraries loaded and runs each program in a fork of itself.

Reads a JSON line ``{path, cwd, env, out, err}``, answers with ``{"exit": code}``. A program sees
nothing of the ones before it; only the half second of imports is shared.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback

import pyarrow as pa

import provender.catalog.catalog
import provender.data.dataset.core  # noqa: F401

pa.array([1])  # loads pandas


def run(request: dict) -> None:
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for fd, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, fd)
        os.close(file)
    sys.path[0] = os.path.dirname(request["path"])
    code = 0
    try:
        runpy.run_path(request["path"], run_name="__main__")
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    import atexit

    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(json.loads(line))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(json.dumps({"exit": os.waitstatus_to_exitcode(status)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
