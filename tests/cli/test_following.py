"""Following a submission's events over connections that are cut."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from shared.api.queues import Queue
from tests.cli.answers import ANSWER, PASSED, RECEIVED_AT, WRONG
from tests.cli.command_runner import run_against, run_warpboard
from tests.cli.stand_in import respond_in_turn
from tests.support.api_examples import make_example

EVENTS = [
    {"id": 12, "type": "SubmissionReceived", "at": RECEIVED_AT, "version": 1, "problem": "m"},
    {"id": 15, "type": "RunStarted", "at": RECEIVED_AT, "version": 1},
    {"id": 19, "type": "SubmissionFinished", "at": RECEIVED_AT, "version": 1, "reason": "a\x1b[2J"},
]
FIELDS = {"state": "queued", "position": 2, "agents_online": 1}
QUEUED = msgspec.to_builtins(make_example(Queue, **FIELDS))


def block(kind: str, data: Any, place: int | None = None) -> bytes:
    head = "" if place is None else f"id: {place}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


class Streamer:
    """Sends events from where a reader was, and cuts the connection after so many."""

    def __init__(self, cut_after: int, end: dict[str, Any]) -> None:
        self.cut_after, self.end = cut_after, end
        self.resumed_at: list[str | None] = []

    def pieces(self, after: int) -> Iterator[bytes]:
        yield b"retry: 2000\n\n: hello\n\n"
        yield block("queue", QUEUED)
        # One that the reader has already, as a careless platform might send it.
        left = [event for event in EVENTS if event["id"] >= after]  # type: ignore[operator]
        for count, event in enumerate(left):
            if count == self.cut_after:
                return
            yield block(str(event["type"]), event, int(str(event["id"])))
        yield block("end", {"number": 12, "id": 19})


@contextmanager
def streaming(streamer: Streamer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if not self.path.endswith("/events"):
                body = json.dumps(streamer.end).encode()
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            came = self.headers.get("Last-Event-ID")
            streamer.resumed_at.append(came)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for piece in streamer.pieces(int(came or 0)):
                self.wfile.write(piece)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


@pytest.mark.feature("N2")
def test_cut_connections_lose_no_event_and_double_none() -> None:
    streamer = Streamer(2, PASSED)
    with streaming(streamer) as url:
        result = run_warpboard("submission", "logs", 12, "--follow", "--json", "--url", url)
    assert result.exit_code == 0, result.output
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [item["id"] for item in events] == [12, 15, 19]
    assert streamer.resumed_at == [None, "15"]
    assert "queued: place 2" in result.stderr


@pytest.mark.feature("P12")
def test_the_end_of_what_is_followed_is_the_exit_code() -> None:
    with streaming(Streamer(9, WRONG)) as url:
        result = run_warpboard("submission", "logs", 12, "--follow", "--url", url)
    assert result.exit_code == 1
    assert "SubmissionReceived  problem=m" in result.stdout
    assert "\x1b" not in result.stdout
    assert "submission 12: wrong answer (ranked on CPU)" in result.stdout


def test_following_has_an_end_and_says_how_to_go_on() -> None:
    with streaming(Streamer(1, ANSWER)) as url:
        result = run_warpboard(
            "submission", "logs", 12, "--follow", "--timeout", "0.7", "--url", url
        )
    assert result.exit_code == 3
    assert "--follow --after 12" in result.stderr


def test_logs_without_following_are_what_happened_so_far() -> None:
    say = respond_in_turn((200, WRONG), (200, EVENTS))
    result, heard = run_against(say, "submission", "logs", 12, "--after", 12)
    assert result.exit_code == 0
    assert heard[1].headers["accept"] == "application/json"
    assert "SubmissionReceived" not in result.stdout
    assert "RunStarted" in result.stdout
    assert "  hello" in result.stdout


@pytest.mark.parametrize(("found", "code", "words"), [(ANSWER, 0, "queued"), (WRONG, 1, "size")])
def test_a_status_is_brief(found: dict[str, Any], code: int, words: str) -> None:
    result, _ = run_against(respond_in_turn((200, found)), "submission", "status", 12)
    assert result.exit_code == code
    assert words in result.stdout
    assert "timeline" not in result.stdout
