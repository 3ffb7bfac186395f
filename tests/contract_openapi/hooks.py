"""What schemathesis loads beside the document: no request waits for news that never comes."""

from typing import Any

import schemathesis

EVENTS = "/v1/submissions/{number}/events"
WAIT_S_MAX = 0.2


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: dict[str, Any]) -> None:
    """Ask for what there is now, never for what is to come."""
    query = case.query or {}
    try:
        is_long = float(query.get("wait_s", 0)) > WAIT_S_MAX
    except (TypeError, ValueError):
        is_long = False
    if is_long and float(query["wait_s"]) <= 25:
        query["wait_s"] = WAIT_S_MAX
    if case.operation.path == EVENTS:
        case.headers = {**(case.headers or {}), "Accept": "application/json"}
