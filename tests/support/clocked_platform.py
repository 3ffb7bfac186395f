"""A platform whose services run on a simulated clock.

`python -m tests.support.clocked_platform up --folder FOLDER --clock FILE [--no-agent]` runs one
until a signal, as `warpboard up` does.
"""

import asyncio
import os
import time
from argparse import ArgumentParser
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.support.platform import QUICK, ROOT, UP_S_MAX, UP_STEP_S, Running
from tests.support.simulated_clock import SimulatedClock
from warpboard.processes.platform import Platform, supervise
from warpboard.processes.services import AGENT, PlatformConfig, Service, local_services

CLOCK_MODULE = "tests.support.simulated_clock"
COMMAND_S_MAX = 900.0


class CommandOutput(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    errors: str


class ClockedRunning(Running):
    """A platform on a simulated clock, which begins at an instant and which `clock` moves.

    Without `has_agent` there is none, unless the test starts agents itself.
    """

    module = "tests.support.clocked_platform"

    def __init__(
        self,
        folder: Path,
        begins_at: datetime,
        settings: dict[str, str] = QUICK,
        *,
        has_agent: bool = True,
    ) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.clock = SimulatedClock(folder.parent / f"{folder.name}.clock")
        self.clock.move_to(begins_at)
        self.has_agent = has_agent
        options = ["--clock", str(self.clock.path), *([] if has_agent else ["--no-agent"])]
        super().__init__(folder, settings, *options)

    def command(self, module: str) -> tuple[str, ...]:
        """The command of a program beside it, on its clock."""
        return run_on_clock(self.clock.path, super().command(module))

    def up(self) -> Running:
        """Start, and return when all services answer; with an agent, when it is free."""
        if self.has_agent:
            return super().up()
        process, until = self.launch(), time.monotonic() + UP_S_MAX
        while not self._is_up():
            log = self.folder.parent / f"{self.folder.name}.log"
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(UP_STEP_S)
        return self

    async def run_command(self, *words: str) -> CommandOutput:
        """Run `warpboard` with these words on this platform and its clock."""
        process = await asyncio.create_subprocess_exec(
            *(*self.command("warpboard"), *words, "--folder", str(self.folder)),
            cwd=ROOT,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            async with asyncio.timeout(COMMAND_S_MAX):
                out, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return CommandOutput(process.returncode, out.decode(), errors.decode())

    def _is_up(self) -> bool:
        try:
            rows = self.state["processes"]
            has_answered = httpx.get(f"{self.url}/v1/problems", timeout=5).is_success
        except (OSError, KeyError, ValueError, httpx.HTTPError):
            return False
        return has_answered and all(row["state"] == "up" for row in rows)


def run_on_clock(clock: Path, command: Sequence[str]) -> tuple[str, ...]:
    """Return a command such as `python -P -m ingest` with this clock."""
    at = command.index("-m") + 1
    return (*command[:at], CLOCK_MODULE, str(clock), *command[at:])


def up(folder: Path, clock: Path, *, has_agent: bool) -> None:
    """Run a platform until a signal."""

    def table(config: PlatformConfig) -> Sequence[Service]:
        return [
            service._replace(command=run_on_clock(clock, service.command))
            for service in local_services(config)
            if has_agent or not service.name.startswith(AGENT)
        ]

    async def wait(_: Platform) -> None:
        await asyncio.Event().wait()

    # Where this module lies, whatever the folder of a service.
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    platform = Platform(folder, os.environ | {"PYTHONPATH": path}, table=table)
    asyncio.run(supervise(platform, wait))


def main() -> None:
    """Run a platform."""
    parser = ArgumentParser()
    parser.add_argument("command", choices=["up"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--clock", type=Path, required=True)
    parser.add_argument("--no-agent", action="store_true")
    options = parser.parse_args()
    up(options.folder, options.clock, has_agent=not options.no_agent)


if __name__ == "__main__":
    main()
