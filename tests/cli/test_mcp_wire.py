"""The process of `warpboard mcp`: raw lines, its ends, a platform that is away or says no."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.answers import ANSWER
from tests.cli.mcp_client import (
    END_S,
    call_failing_tool,
    call_tool,
    client,
    send_line,
    start_raw_server,
    tool_request,
)
from tests.cli.stand_in import ReceivedRequest, respond_in_turn, run_stand_in

pytestmark = [pytest.mark.timeout(120), pytest.mark.long]

NOTHING_THERE = "http://127.0.0.1:9"
KERNEL = "def custom_kernel(data):\n    return data\n"
RECEIPT = {"submissions": [{"number": 12, "gpu": "CPU"}], "problem_version": 3}
PROBLEMS: dict[str, Any] = {"items": [], "next_cursor": None}
AWAY = {"detail": "NATS is away", "code": "not_ready"}
NO_KERNELS: tuple[tuple[dict[str, str], str], ...] = (
    ({}, "field source"),
    ({"source": KERNEL, "path": "kernel.py"}, "field source"),
    ({"source": " \n"}, "has no text"),
    ({"path": "kernel.sh"}, ".py, .cpp, .cu"),
    ({"path": "missing.py"}, "cannot be read"),
)


async def test_a_platform_that_is_away_is_told_and_the_server_lives_on(tmp_path: Path) -> None:
    async with client(tmp_path, "--url", NOTHING_THERE, "--as", "ada") as agent:
        # What is no kernel is refused before anything is sent.
        for kernel, message in NO_KERNELS:
            assert message in await call_failing_tool(agent, "submit", problem="m", **kernel)
        for tool, arguments in (
            ("list_problems", {}),
            ("read_result", {"number": 1}),
            ("submit", {"problem": "m", "source": KERNEL}),
            ("follow", {"number": 1, "wait_s": 50}),
        ):
            async with asyncio.timeout(60):
                text = await call_failing_tool(agent, tool, **arguments)
            assert NOTHING_THERE in text
            assert "code unavailable" in text
        assert (await agent.list_tools()).tools


async def test_without_any_platform_the_mend_is_told(tmp_path: Path) -> None:
    async with client(tmp_path, "--folder", tmp_path / "nothing") as agent:
        assert "warpboard up" in await call_failing_tool(agent, "list_problems")


async def test_a_platform_that_comes_back_is_found_without_a_new_server(tmp_path: Path) -> None:
    answers = ((503, AWAY), (200, PROBLEMS), (503, AWAY), (202, RECEIPT))
    with run_stand_in(respond_in_turn(*answers)) as standin:
        async with client(tmp_path, "--url", standin.url, "--as", "ada") as agent:
            assert "NATS is away" in await call_failing_tool(agent, "list_problems")
            assert await call_tool(agent, "list_problems") == {"items": []}
            # A submission is sent again by itself, with the same key.
            result = await call_tool(agent, "submit", problem="m", source=KERNEL, gpus=["CPU"])
        keys = [request.headers["idempotency-key"] for request in standin.heard[2:]]
    (receipt,) = result["submissions"]
    assert (receipt["number"], receipt["gpu"]) == (12, "CPU")
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_the_token_of_the_environment_is_shown_and_a_refusal_says_to_log_in(
    tmp_path: Path,
) -> None:
    refusal = {"detail": "this token is over", "code": "invalid_credential"}
    with run_stand_in(respond_in_turn((401, refusal))) as standin:
        variables = {"WARPBOARD_TOKEN": "wb_1", "WARPBOARD_URL": standin.url}
        async with client(tmp_path, **variables) as agent:
            text = await call_failing_tool(agent, "my_submissions")
        assert standin.heard[0].headers["authorization"] == "Bearer wb_1"
    assert "this token is over" in text
    assert "warpboard login" in text
    assert "wb_1" not in text


def test_raw_lines_are_answered_by_protocol_alone(tmp_path: Path) -> None:
    def respond(_: ReceivedRequest) -> tuple[int, Any]:
        # By then the client has closed stdin.
        time.sleep(1.5)
        return 200, PROBLEMS

    with (
        run_stand_in(respond) as standin,
        start_raw_server(tmp_path, "--url", standin.url) as server,
    ):
        assert server.stdin is not None
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 7, "x": "' + b"x" * 9_000_000 + b'"}\n')
        for line in ("rubbish", "[1, 2]", '{"jsonrpc": "2.0"}', "\x00"):
            send_line(server, line)
        send_line(server, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        send_line(server, tool_request(3, "list_problems"))
        send_line(server, tool_request(4, "nonsense"))
        out, err = server.communicate(timeout=END_S)
    answers = {answer["id"]: answer for answer in map(json.loads, out.splitlines())}
    assert sorted(answers) == [2, 3, 4]
    assert answers[3]["result"]["structuredContent"] == {"items": []}
    assert "list_problems" in answers[4]["error"]["message"]
    assert b"left out" in err
    assert b"Traceback" not in err
    assert server.returncode == 0


def slowly(heard: ReceivedRequest) -> tuple[int, Any]:
    """A platform on which nothing is ever over."""
    if heard.path.endswith("/events"):
        time.sleep(2)
        return 503, AWAY
    return 200, ANSWER


@pytest.mark.parametrize(
    ("end", "code", "is_busy"),
    [
        (None, 0, False),
        (None, 0, True),
        (signal.SIGTERM, 143, True),
        (signal.SIGINT, 130, True),
        (signal.SIGPIPE, 0, True),
    ],
)
def test_it_ends_with_its_client_whatever_is_under_way(
    tmp_path: Path, end: signal.Signals | None, code: int, is_busy: bool
) -> None:
    with (
        run_stand_in(slowly) as standin,
        start_raw_server(tmp_path, "--url", standin.url) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        if is_busy:
            send_line(server, tool_request(2, "follow", number=12, wait_s=50))
        if end is None:
            server.stdin.close()
        elif end is signal.SIGPIPE:
            server.stdout.close()
            send_line(server, {"jsonrpc": "2.0", "id": 3, "method": "ping"})
        else:
            server.send_signal(end)
        assert server.wait(END_S) == code
        assert b"Traceback" not in server.stderr.read()
