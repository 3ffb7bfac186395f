"""A process that runs commands of the CLI one after the other, so that each costs no start.

`python -m tests.access.command_process` reads a line of JSON for each, with its arguments and
environment, and writes a line with what it printed. A command needs the main thread of a process.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cli.command_runner import run_warpboard

ROOT = Path(__file__).parents[2]
LINE_BYTES_MAX = 16 * 1024 * 1024
COMMAND_S_MAX = 60.0


class CommandProcess:
    """Sends commands to the process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def run(self, *arguments: str, **environ: str) -> str:
        """Run a command, and return what it printed. Raises AssertionError if it broke."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([arguments, environ]).encode() + b"\n")
        async with asyncio.timeout(COMMAND_S_MAX):
            line = await self.process.stdout.readline()
        output, error = json.loads(line)
        assert not error, f"{arguments}: {error}\n{output}"
        return str(output)


@asynccontextmanager
async def open_command_process() -> AsyncIterator[CommandProcess]:
    """Start the process, and end it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
    )
    try:
        yield CommandProcess(process)
    finally:
        process.kill()
        await process.wait()


def main() -> None:
    """Run commands until the input ends."""
    for line in sys.stdin:
        arguments, environ = json.loads(line)
        result = run_warpboard(*arguments, **environ)
        is_end = result.exception is None or isinstance(result.exception, SystemExit)
        error = "" if is_end else repr(result.exception)
        print(json.dumps([result.output, error]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
