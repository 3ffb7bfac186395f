"""The process of `warpboard mcp`: raw lines, its ends, a platform that is away or says no."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.answers import ANSWER
from tests.cli.standin import Heard, in_turn, standing
from tests.cli.talking import END_S, call, client, raw, say, tell, trouble

pytestmark = [pytest.mark.timeout(120), pytest.mark.long]

NOTHING_THERE = "http://127.0.0.1:9"
KERNEL = "def custom_kernel(data):\n    return data\n"
RECEIPT = {"submissions": [{"number": 12, "gpu": "CPU"}], "problem_version": 3}
PROBLEMS: dict[str, Any] = {"items": [], "next_cursor": None}
AWAY = {"detail": "NATS is away", "code": "not_ready"}
# What the SDK's client allows is 2 s; this machine may be busy with other tests.
END_S_MAX = 15.0


async def test_a_platform_that_is_away_is_told_and_the_server_lives_on(tmp_path: Path) -> None:
    async with client(tmp_path, "--url", NOTHING_THERE, "--as", "ada") as agent:
        for tool, said in (
            ("list_problems", {}),
            ("read_result", {"number": 1}),
            ("submit", {"problem": "m", "source": KERNEL}),
            ("follow", {"number": 1, "wait_s": 50}),
        ):
            async with asyncio.timeout(60):
                text = await trouble(agent, tool, **said)
            assert NOTHING_THERE in text
            assert "code unavailable" in text
        assert (await agent.list_tools()).tools


async def test_a_platform_that_comes_back_is_found_without_a_new_server(tmp_path: Path) -> None:
    with standing(in_turn((503, AWAY), (200, PROBLEMS))) as standin:
        async with client(tmp_path, "--url", standin.url, "--as", "ada") as agent:
            assert "NATS is away" in await trouble(agent, "list_problems")
            assert await tell(agent, "list_problems") == {"problems": []}


async def test_without_any_platform_the_mend_is_told(tmp_path: Path) -> None:
    async with client(tmp_path, "--folder", tmp_path / "nothing") as agent:
        assert "warpboard up" in await trouble(agent, "list_problems")


async def test_a_submission_that_is_sent_again_has_the_same_key(tmp_path: Path) -> None:
    with standing(in_turn((503, AWAY), (202, RECEIPT))) as standin:
        async with client(tmp_path, "--url", standin.url, "--as", "ada") as agent:
            found = await tell(agent, "submit", problem="m", source=KERNEL, gpus=["CPU"])
        keys = [one.headers["idempotency-key"] for one in standin.heard]
    assert found["submissions"] == [{"number": 12, "gpu": "CPU"}]
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_the_token_of_the_environment_is_shown_and_a_refusal_says_to_log_in(
    tmp_path: Path,
) -> None:
    refusal = {"detail": "this token is over", "code": "invalid_credential"}
    with standing(in_turn((401, refusal))) as standin:
        said = {"WARPBOARD_TOKEN": "wb_1", "WARPBOARD_URL": standin.url}
        async with client(tmp_path, **said) as agent:
            text = await trouble(agent, "my_submissions")
        assert standin.heard[0].headers["authorization"] == "Bearer wb_1"
    assert "this token is over" in text
    assert "warpboard login" in text
    assert "wb_1" not in text


async def test_a_kernel_that_is_none_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    bad: tuple[tuple[dict[str, str], str], ...] = (
        ({}, "field source"),
        ({"source": KERNEL, "path": "kernel.py"}, "field source"),
        ({"source": " \n"}, "has no text"),
        ({"path": "kernel.sh"}, ".py, .cpp, .cu"),
        ({"path": "missing.py"}, "cannot be read"),
    )
    async with client(tmp_path, "--url", NOTHING_THERE, "--as", "ada") as agent:
        for said, told in bad:
            assert told in await trouble(agent, "submit", problem="m", **said)


def test_raw_lines_are_answered_by_protocol_alone(tmp_path: Path) -> None:
    said = in_turn((200, PROBLEMS))
    with standing(said) as standin, raw(tmp_path, "--url", standin.url) as server:
        for line in ("rubbish", "[1, 2]", '{"jsonrpc": "2.0"}', "\x00"):
            say(server, line)
        say(server, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        say(server, call(3, "list_problems"))
        say(server, call(4, "nonsense"))
        out, err = server.communicate(timeout=END_S)
    told = {one["id"]: one for one in map(json.loads, out.splitlines())}
    assert sorted(told) == [2, 3, 4]
    assert told[3]["result"]["structuredContent"] == {"problems": []}
    assert "list_problems" in told[4]["error"]["message"]
    assert b"Traceback" not in err
    assert server.returncode == 0


def slowly(heard: Heard) -> tuple[int, Any]:
    """A platform on which nothing is ever over."""
    if heard.path.endswith("/events"):
        time.sleep(2)
        return 503, AWAY
    return 200, ANSWER


@pytest.mark.parametrize("is_busy", [False, True])
@pytest.mark.parametrize(
    ("end", "code"), [(None, 0), (signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGPIPE, 0)]
)
def test_it_ends_with_its_client_whatever_is_under_way(
    tmp_path: Path, end: signal.Signals | None, code: int, is_busy: bool
) -> None:
    with standing(slowly) as standin, raw(tmp_path, "--url", standin.url) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        if is_busy:
            say(server, call(2, "follow", number=12, wait_s=50))
        if end is None:
            server.stdin.close()
        elif end is signal.SIGPIPE:
            server.stdout.close()
            say(server, {"jsonrpc": "2.0", "id": 3, "method": "ping"})
        else:
            server.send_signal(end)
        assert server.wait(END_S) == code
        assert b"Traceback" not in server.stderr.read()


def test_a_message_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    with raw(tmp_path, "--url", NOTHING_THERE) as server:
        assert server.stdin is not None
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 7, "x": "' + b"x" * 9_000_000 + b'"}\n')
        say(server, {"jsonrpc": "2.0", "id": 8, "method": "ping"})
        out, err = server.communicate(timeout=END_S)
    assert [json.loads(one)["id"] for one in out.splitlines()] == [8]
    assert b"left out" in err
