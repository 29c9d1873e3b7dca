"""One build in a process of its own, which says what happens, a JSON object a line.

python build_program.py '{"ref": ..., "store": ..., "catalog": ..., "options": {...}}'

    <- {"event": "plan"}, {"event": "wait", "stage": ..., "holder": ...}, ...
    <- {"outcome": ..., "ran": [...], "version": ..., "seconds": ...}     last, of a build that ended well
    <- {"error": {...}}                                                   last, of one that did not
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from provender.engine.build import build
from provender.engine.session import Options, open_session
from provender.errors import ProvenderError
from provender.refs import DatasetRef
from provender.settings import load_settings

_LOCK = threading.Lock()


def say(doc: Mapping[str, Any]) -> None:
    with _LOCK:
        print(json.dumps({"at": time.time(), **doc}), flush=True)


def tell(event: Mapping[str, Any]) -> None:
    shown = {k: v for k, v in event.items() if isinstance(v, str | int | float)}
    say({**shown, "event": event["event"]})


def main() -> None:
    job = json.loads(sys.argv[1])
    settings = load_settings(store=job["store"], catalog=job["catalog"])
    options = Options(**job["options"])
    try:
        session = open_session(DatasetRef.parse(job["ref"]), settings, options)
        built = build(session, tell)
    except ProvenderError as error:
        say({"error": error.to_json()})
        sys.exit(error.exit_code)
    say({**built.to_json(), "plan": None})


if __name__ == "__main__":
    main()
