"""How the client submits and polls, without its five seconds between two looks."""

import time
from collections import deque
from typing import Any

from tests.contract_popcorn.wire import PATIENCE_S, Answer, Wire, events

HONEST = b"""
def custom_kernel(data):
    source, output = data[0], data[-1]
    output.copy_(source)
    return output
"""
TERMINAL = ("succeeded", "failed", "timed_out", "hacked")
LOOK_S = 0.05
STATUS_S_MAX = 15.0
# What streams told, for comparing it with the document at the end.
TOLD: deque[Any] = deque(maxlen=1000)


# A GPU type of the problem that no agent has: what is sent there is accepted and never runs.
NOBODYS = "H100"


def submit(wire: Wire, mode: str = "test", source: bytes = HONEST, board: str = "identity") -> int:
    """A submission that is accepted; its id."""
    answer = wire.post_file(f"/submission/{board}/CPU/{mode}", source)
    assert answer.status == 202, answer.body
    number = answer.json()["details"]["id"]
    assert type(number) is int
    return number


def followed(wire: Wire, path: str, source: bytes = HONEST, size: int = 7) -> list[tuple[str, Any]]:
    """The events of a stream, read in pieces of an odd size."""
    with wire.opened_file(path, source, "submission.py") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        found, at = [], time.monotonic()
        for event in events(stream.chunks(size)):
            assert time.monotonic() - at < STATUS_S_MAX
            at = time.monotonic()
            found.append(event)
    TOLD.extend(data for _, data in found)
    return found


def polled(wire: Wire, number: int, look_s: float = LOOK_S) -> list[dict[str, Any]]:
    """Every answer of a poll, the last one done; each is looked at as the contract says."""
    found: list[dict[str, Any]] = []
    until = time.monotonic() + PATIENCE_S
    while not found or not found[-1]["done"]:
        assert time.monotonic() < until, f"not done after {PATIENCE_S} s: {found[-1:]}"
        answer = wire.get(f"/user/submissions/{number}")
        assert answer.status == 200, answer.body
        found.append(answer.json())
        check_job(found[-1])
        time.sleep(look_s)
    return found


def check_job(told: dict[str, Any]) -> None:
    """The client tests the status before `done`: they must never disagree."""
    status = told["job"]["status"].partition(":")[0]
    assert told["done"] is (status in TERMINAL), told["job"]
    assert status in (*TERMINAL, "pending", "running"), status
    error = told["job"]["error"]
    assert (error is None) == (status in ("pending", "running", "succeeded")), told["job"]
    assert error is None or (error.isascii() and 0 < len(error) <= 1500)


def ended(wire: Wire, number: int) -> dict[str, Any]:
    """A submission once it is done."""
    return polled(wire, number)[-1]


def refusal(answer: Answer, status: int, code: str) -> str:
    """The sentence of a refusal, in the one shape that the client can print."""
    assert answer.status == status, answer.body
    told = answer.json()
    assert next(iter(told)) == "detail"
    assert isinstance(told["detail"], str)
    assert told["detail"]
    assert (told["code"], told["request_id"] != "") == (code, True)
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
    return str(told["detail"])
