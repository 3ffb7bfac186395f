"""The platform's own agent is enrolled with its own key, whenever the platform starts."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from shared.errors import Failed
from warpboard.processes.platform import enrol

ENVIRON = {"WARPBOARD_GPU_AGENT_ID": "local"}
# An agent's command, which is asked for its key by one more word.
AGENT = (sys.executable, "-c", "import sys; print('KEY' if sys.argv[1:] == ['key'] else '')")


class Door(HTTPServer):
    """Stands in for ingest: gives these answers, the last again and again."""

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.answers = list(answers)
        self.asked: list[tuple[str, str, str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: Door

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        credentials = self.headers["Authorization"], self.headers["Warpboard-Operator"]
        self.server.asked.append((self.path, *credentials, body))
        answers = self.server.answers
        status, said = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    with Door(*request.param) as opened:
        thread = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield opened
        opened.shutdown()
        thread.join(5)


@pytest.mark.feature("N16")
@pytest.mark.parametrize("door", [[(200, {"event": "AgentEnrolled"})]], indirect=True)
async def test_the_agents_own_key_is_enrolled_in_the_operators_name(door: Door) -> None:
    await enrol(door.url, "a-token", AGENT, ENVIRON)
    ((path, authorization, operator, body),) = door.asked
    assert path == "/v1/admin/agents/local/enroll"
    assert (authorization, operator) == ("Bearer a-token", "warpboard-up")
    assert body["sign_key"] == "KEY"


@pytest.mark.parametrize("door", [[(503, {}), (503, {}), (200, {})]], indirect=True)
async def test_enrolling_waits_for_a_door_that_is_not_open_yet(door: Door) -> None:
    await enrol(door.url, "a-token", AGENT, ENVIRON)
    assert len(door.asked) == 3


@pytest.mark.parametrize("door", [[(409, {"code": "wrong_state"})]], indirect=True)
async def test_a_revoked_agent_does_not_keep_the_platform_from_starting(door: Door) -> None:
    await enrol(door.url, "a-token", AGENT, ENVIRON)
    assert len(door.asked) == 1


@pytest.mark.parametrize("door", [[(401, {"code": "invalid_credential"})]], indirect=True)
async def test_an_enrolment_that_is_turned_down_is_told(door: Door) -> None:
    with pytest.raises(Failed, match="agent local was not enrolled: HTTP status 401"):
        await enrol(door.url, "a-token", AGENT, ENVIRON)


async def test_an_agent_without_a_key_says_why() -> None:
    broken = (sys.executable, "-c", "raise SystemExit('others may read it')")
    with pytest.raises(Failed, match="others may read it"):
        await enrol("http://127.0.0.1:9", "a-token", broken, ENVIRON)
