"""Screens sources in a process of its own, which a hostile source may exhaust or crash.

`python -m ranker.retrieval.screen_process` reads requests from its input: a line with the length of
a source in bytes and its language, and the source. It writes the findings as one line of JSON each,
and ends with its input.
"""

import asyncio
import json
import logging
import resource
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress

from ranker.domain.source_screen import Finding, screen_source

# What one source may use. A module of 1 MB of short statements takes 5 s.
CPU_S_MAX = 20
MEMORY_BYTES_MAX = 2 * 1024**3
# By wall time, because a machine may be busy.
SCREEN_S_MAX = 120.0
LINE_BYTES_MAX = 1024 * 1024
# A source that the screen cannot finish; a moderator must read it.
UNREADABLE = [Finding("source_unusual", 1)]

logger = logging.getLogger(__name__)


class ScreenProcess:
    """Screens one source at a time; starts its process when needed, and again after a crash."""

    def __init__(self) -> None:
        self._process: Process | None = None

    async def screen(self, source: bytes, *, is_python: bool) -> list[Finding]:
        """Return the findings; one about the whole source if it exhausts or crashes the process."""
        if self._process is None:
            self._process = await _start()
        try:
            async with asyncio.timeout(SCREEN_S_MAX):
                line = await _exchange(self._process, source, is_python=is_python)
        except (TimeoutError, OSError, ValueError):
            line = b""
        if not line.endswith(b"\n"):
            logger.warning("the advisory screen could not finish a source of %d bytes", len(source))
            await self.close()
            return UNREADABLE
        return [Finding(*item) for item in json.loads(line)]

    async def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _start() -> Process:
    command = ("-P", "-m", "ranker.retrieval.screen_process")
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=LINE_BYTES_MAX,
        start_new_session=True,
    )


async def _exchange(process: Process, source: bytes, *, is_python: bool) -> bytes:
    assert process.stdin is not None, "its input is a pipe"
    assert process.stdout is not None, "its output is a pipe"
    process.stdin.write(b"%d %d\n%b" % (len(source), is_python, source))
    await process.stdin.drain()
    return await process.stdout.readline()


def main() -> None:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while words := requests.readline().split():
        length, is_python = map(int, words)
        source = requests.read(length)
        _limit_cpu()
        findings = screen_source(source, is_python=bool(is_python))
        answers.write(json.dumps(findings).encode() + b"\n")
        answers.flush()


def _limit_cpu() -> None:
    """Let the next source use its share of processor time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used_s = int(usage.ru_utime + usage.ru_stime) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (used_s + CPU_S_MAX, hard))


if __name__ == "__main__":
    main()
