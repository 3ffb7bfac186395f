"""What schemathesis loads beside Discord's document: ids of what is there, in two of three."""

import json
import os
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

import schemathesis

PINS = "DISCORD_SIM_PINS"
_turns: dict[str, Iterator[str]] = {}


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: dict[str, Any]) -> None:
    """Let most requests that delete nothing be about what is there."""
    path = case.operation.path
    if case.method == "DELETE" or next(_turns.setdefault(path, cycle("110"))) == "0":
        return
    there: Mapping[str, list[str]] = json.loads(os.environ[PINS])
    for name in case.path_parameters or ():
        if values := there.get(f"{path} {name}") or there.get(name):
            turn = _turns.setdefault(f"{path} {name}", cycle(values))
            case.path_parameters[name] = next(turn)
