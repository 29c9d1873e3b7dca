"""A process that has the libraries loaded and runs each program in a fork of itself.

Its arguments name modules to load ahead. Reads a JSON line ``{path, cwd, env, out, err}``, answers
with ``{"exit": code}``. A program sees nothing of the ones before it; only the half second of
imports is shared. Nothing runs in it while it forks but what the libraries' own threads do, and
those are made for that; TensorFlow's are not, so it is not to be loaded ahead.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import traceback


def run(request: dict) -> None:
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
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
    for name in sys.argv[1:]:
        importlib.import_module(name)
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].array([1])  # loads pandas
    assert "tensorflow" not in sys.modules
    sys.argv[1:] = []
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(json.loads(line))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(json.dumps({"exit": os.waitstatus_to_exitcode(status)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
