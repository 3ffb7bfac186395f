"""What schemathesis loads beside the document: reads of what is there, and no long waits."""

import os
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

import schemathesis
from schemathesis import GenerationMode

NUMBERS = "WARPBOARD_TOWN_NUMBERS"
EVENTS = ("/v1/submissions/{number}/events", "/v1/leaderboards/{slug}/{gpu}/events")
WAIT_S_MAX = 0.2
# What a town has, by the name of a parameter, and by path and name where one means several things.
THERE: Mapping[str, tuple[str, ...]] = {
    "gpu": ("CPU",),
    "slug": ("identity", "club"),
    "leaderboard": ("identity", "club"),
    "problem": ("identity",),
    "participant": ("ada",),
    "/v1/participants/{name} name": ("ada",),
    "/v1/participants/{name}/history name": ("ada",),
    "/v1/admin/participants/{name} name": ("ada",),
    "/v1/problems/{slug}/files/{name} name": ("reference.py", "task.yml"),
    "/v1/submissions/{number}/files/{name} name": ("log.txt", "samples.json.gz"),
}
OF_SUBMISSIONS = ("number", "job_id", "a", "b")
# What may be done again and again with what is there, and leaves it there.
HARMLESS = ("/v1/submissions/{number}/note", "/submission/{leaderboard}/{gpu}/{mode}")
_turns: dict[str, Iterator[str]] = {}


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: dict[str, Any]) -> None:
    """Ask for what there is now, never for what is to come."""
    if case.meta is None or case.meta.generation.mode == GenerationMode.POSITIVE:
        _find(case)
    query = case.query or {}
    try:
        is_long = float(query.get("wait_s", 0)) > WAIT_S_MAX
    except (TypeError, ValueError):
        is_long = False
    if is_long and float(query["wait_s"]) <= 25:
        query["wait_s"] = WAIT_S_MAX
    if case.operation.path in EVENTS:
        case.headers = {**(case.headers or {}), "Accept": "application/json"}


def _find(case: Any) -> None:
    """Let two of three requests that change nothing be about what is there."""
    path = case.operation.path
    if case.method != "GET" and path not in HARMLESS:
        return
    if next(_turns.setdefault(path, cycle("110"))) == "0":
        return
    for names in (case.path_parameters, case.query):
        for name in names or ():
            if values := _values(path, name):
                names[name] = next(_turns.setdefault(f"{path} {name}", cycle(values)))


def _values(path: str, name: str) -> tuple[str, ...]:
    if name in OF_SUBMISSIONS:
        return tuple(os.environ.get(NUMBERS, "").split())
    return THERE.get(f"{path} {name}", THERE.get(name, ()))
