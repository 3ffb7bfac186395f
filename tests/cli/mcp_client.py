"""The client side of `warpboard mcp`: the real process, driven by the SDK's own client."""

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


def server_command(*options: object) -> list[str]:
    """Return the command that a client starts."""
    return [sys.executable, "-m", "warpboard", "mcp", *map(str, options)]


@asynccontextmanager
async def client(folder: Path, *options: object, **environ: str) -> AsyncIterator[Client]:
    """Start a server in a folder and connect the SDK's client to it."""
    command, *args = server_command(*options)
    home = {"HOME": str(folder), "PYTHONWARNINGS": "default"} | environ
    parameters = StdioServerParameters(command=command, args=args, env=home, cwd=folder)
    with (folder / "mcp.log").open("a") as log:
        async with Client(
            stdio_client(parameters, log), read_timeout_seconds=ANSWER_S
        ) as connected:
            yield connected
    assert "Traceback" not in (folder / "mcp.log").read_text()


async def call_tool(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a tool's result, which is the same in text."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content
    assert json.loads(result.content[0].text) == content  # type: ignore[union-attr]
    return content


async def call_failing_tool(client: Client, tool: str, **arguments: Any) -> str:
    """Return the error message of a tool that fails."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    text: str = result.content[0].text  # type: ignore[union-attr]
    assert "Traceback" not in text
    return text


async def follow_to_end(client: Client, number: int) -> list[str]:
    """Return every event of a submission, followed to its end in short calls."""
    events: list[str] = []
    after = 0
    for _ in range(60):
        result = await call_tool(client, "follow", number=number, after=after, wait_s=2)
        events += result["events"]
        after = result["next_after"]
        if result["is_over"] and not result.get("cut"):
            return events
    raise AssertionError(f"submission {number} is not over: {events}")


@contextmanager
def start_raw_server(folder: Path, *options: object) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a server with pipes for stdin and stdout, and complete the handshake."""
    process = subprocess.Popen(
        server_command(*options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=os.environ | {"HOME": str(folder)},
    )
    try:
        for message in HELLO:
            send_line(process, message)
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


def send_line(process: "subprocess.Popen[bytes]", message: dict[str, Any] | str) -> None:
    """Send a line to the server."""
    assert process.stdin is not None
    text = message if isinstance(message, str) else json.dumps(message)
    process.stdin.write(text.encode() + b"\n")
    process.stdin.flush()


def tool_request(id_: int, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return a request that calls a tool."""
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": f"p{id_}"}}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def server_pids() -> list[int]:
    """Return the processes of the servers that this process started."""
    children_by_task = [
        path.read_text().split() for path in Path("/proc/self/task").glob("*/children")
    ]
    pids = {int(pid) for children in children_by_task for pid in children}
    return [pid for pid in pids if b"\0mcp\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
