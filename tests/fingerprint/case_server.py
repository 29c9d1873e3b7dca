"""Runs case programs and hashes their `obj`, one JSON request a line on stdin.

Request: {"path": script, "fork": bool, "keep_pyc": bool}. Answer: {"hash": ...} or {"error": ...}.
With fork, each program runs in a child of its own, inside the real ``__main__`` module. Without,
programs run one after another in one process (for libraries that take seconds to import), each in
a fresh module that stands in for ``__main__``.
"""

import importlib
import json
import os
import sys
import traceback
import types


def run(request):
    path = request["path"]
    folder = os.path.dirname(path)
    sys.dont_write_bytecode = not request.get("keep_pyc")
    sys.argv = [path]
    sys.path.insert(0, folder)
    os.chdir(folder)
    importlib.invalidate_caches()
    space = sys.modules["__main__"].__dict__
    space["__file__"] = path
    try:
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), space)
        return {"hash": sys.modules["provender.fingerprint"].Hasher.hash(space["obj"])}
    except BaseException:
        return {"error": traceback.format_exc()[-1500:]}
    finally:
        sys.path.remove(folder)


def forked(request):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for name in ("run", "forked", "fresh", "serve"):
                del globals()[name]
            answer = RUN(request)
            with os.fdopen(write, "w") as out:
                json.dump(answer, out)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as inp:
        text = inp.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "the child died"}


def fresh(request):
    module = types.ModuleType("__main__")
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        return run(request)
    finally:
        sys.modules["__main__"] = before


def serve():
    from provender.fingerprint import Hasher

    Hasher.hash(serve)
    for name in sys.argv[1:]:
        importlib.import_module(name)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answer = forked(request) if request["fork"] else fresh(request)
        out.write(json.dumps(answer) + "\n")
        out.flush()


RUN = run

if __name__ == "__main__":
    serve()
