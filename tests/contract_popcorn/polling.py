"""Submitting and polling as the client does, without its five seconds between polls."""

import time
from collections import deque
from typing import Any

from tests.contract_popcorn.wire import PATIENCE_S, Answer, Open, Wire, events

HONEST = b"""
def custom_kernel(data):
    source, output = data[0], data[-1]
    output.copy_(source)
    return output
"""
TERMINAL = ("succeeded", "failed", "timed_out", "hacked")
LOOK_S = 0.05
STATUS_S_MAX = 15.0
# The data of all streams, to check against the document at the end.
TOLD: deque[Any] = deque(maxlen=1000)


# A GPU type of the problem that no agent has: submissions are accepted and never run.
NOBODYS = "H100"


def submit(wire: Wire, mode: str = "test", source: bytes = HONEST, board: str = "identity") -> int:
    """Submit and return the id."""
    answer = wire.post_file(f"/submission/{board}/CPU/{mode}", source)
    assert answer.status == 202, answer.body
    number = answer.json()["details"]["id"]
    assert type(number) is int
    return number


def follow_stream(
    wire: Wire, path: str, source: bytes = HONEST, size: int = 7
) -> list[tuple[str, Any]]:
    """Return the events of a stream, read in pieces of an odd size."""
    with wire.opened_file(path, source, "submission.py") as stream:
        return read_events(stream, size)


def read_events(stream: Open, size: int = 7) -> list[tuple[str, Any]]:
    """Return the events of an open stream, read in pieces of an odd size."""
    assert stream.status == 200
    assert stream.headers["content-type"] == "text/event-stream"
    stream_events, at = [], time.monotonic()
    for event in events(stream.chunks(size)):
        assert time.monotonic() - at < STATUS_S_MAX
        at = time.monotonic()
        stream_events.append(event)
    TOLD.extend(data for _, data in stream_events)
    return stream_events


def poll_until_done(wire: Wire, number: int, look_s: float = LOOK_S) -> list[dict[str, Any]]:
    """Poll until it is done, and return every response; each one is checked."""
    answers: list[dict[str, Any]] = []
    until = time.monotonic() + PATIENCE_S
    while not answers or not answers[-1]["done"]:
        assert time.monotonic() < until, f"not done after {PATIENCE_S} s: {answers[-1:]}"
        answer = wire.get(f"/user/submissions/{number}")
        assert answer.status == 200, answer.body
        answers.append(answer.json())
        check_job(answers[-1])
        time.sleep(look_s)
    return answers


def check_job(submission: dict[str, Any]) -> None:
    """Check that status and `done` agree: the client tests the status first."""
    status = submission["job"]["status"].partition(":")[0]
    assert submission["done"] is (status in TERMINAL), submission["job"]
    assert status in (*TERMINAL, "pending", "running"), status
    error = submission["job"]["error"]
    assert (error is None) == (status in ("pending", "running", "succeeded")), submission["job"]
    assert error is None or (error.isascii() and 0 < len(error) <= 1500)


def wait_until_done(wire: Wire, number: int) -> dict[str, Any]:
    """Return a submission once it is done."""
    return poll_until_done(wire, number)[-1]


def refusal(answer: Answer, status: int, code: str) -> str:
    """Return the message of a refusal, in the form that the client can print."""
    assert answer.status == status, answer.body
    body = answer.json()
    assert next(iter(body)) == "detail"
    assert isinstance(body["detail"], str)
    assert body["detail"]
    assert (body["code"], body["request_id"] != "") == (code, True)
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
    return str(body["detail"])
