"""An agent's side of `warpboard mcp`: the real process, driven by the SDK's own client."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

ANSWER_S = 90.0
END_S = 20.0
HELLO = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)


def words(*options: object) -> list[str]:
    """The command that a client starts."""
    return [sys.executable, "-m", "warpboard", "mcp", *map(str, options)]


@asynccontextmanager
async def client(folder: Path, *options: object, **environ: str) -> AsyncIterator[Client]:
    """The SDK's client of a server of its own, which runs in a folder."""
    command, *args = words(*options)
    home = {"HOME": str(folder), "PYTHONWARNINGS": "default"} | environ
    started = StdioServerParameters(command=command, args=args, env=home, cwd=folder)
    with (folder / "mcp.log").open("a") as log:
        async with Client(stdio_client(started, log), read_timeout_seconds=ANSWER_S) as found:
            yield found
    assert "Traceback" not in (folder / "mcp.log").read_text()


async def tell(client: Client, tool: str, **said: Any) -> dict[str, Any]:
    """A tool's answer, which the client holds against the tool's own schema."""
    result = await client.call_tool(tool, said)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    assert json.loads(result.content[0].text) == found  # type: ignore[union-attr]
    return found


async def trouble(client: Client, tool: str, **said: Any) -> str:
    """What a tool says that could not do its work."""
    result = await client.call_tool(tool, said)
    assert result.is_error, result.structured_content
    text: str = result.content[0].text  # type: ignore[union-attr]
    assert "Traceback" not in text
    return text


async def over(client: Client, number: int) -> list[dict[str, Any]]:
    """Every event of a submission, followed to its end in short calls."""
    events: list[dict[str, Any]] = []
    after = 0
    for _ in range(60):
        found = await tell(client, "follow", number=number, after=after, wait_s=2)
        events += found["events"]
        after = found["next_after"]
        if found["is_over"] and not found.get("cut"):
            return events
    raise AssertionError(f"submission {number} is not over: {events}")


@contextmanager
def raw(folder: Path, *options: object) -> Iterator["subprocess.Popen[bytes]"]:
    """A server whose stdin and stdout are ours, after the handshake."""
    process = subprocess.Popen(
        words(*options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=os.environ | {"HOME": str(folder)},
    )
    try:
        for one in HELLO:
            say(process, one)
        assert process.stdout is not None
        assert process.stderr is not None
        hello = process.stdout.readline()
        assert hello, process.stderr.read().decode()
        assert json.loads(hello)["id"] == 1
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(END_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def say(process: "subprocess.Popen[bytes]", message: dict[str, Any] | str) -> None:
    """A line to the server."""
    assert process.stdin is not None
    text = message if isinstance(message, str) else json.dumps(message)
    process.stdin.write(text.encode() + b"\n")
    process.stdin.flush()


def call(which: int, tool: str, /, **said: Any) -> dict[str, Any]:
    """A request that calls a tool."""
    params = {"name": tool, "arguments": said, "_meta": {"progressToken": f"p{which}"}}
    return {"jsonrpc": "2.0", "id": which, "method": "tools/call", "params": params}


def servers() -> list[int]:
    """The processes of the servers that this process started."""
    found = [one.read_text().split() for one in Path("/proc/self/task").glob("*/children")]
    pids = {int(pid) for children in found for pid in children}
    return [pid for pid in pids if b"\0mcp\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
