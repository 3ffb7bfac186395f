"""The process of a bot, and Discord's documents that the environment names."""

import asyncio
import os
import sys
from pathlib import Path

from discord_sim.documents import Validators
from discord_sim.settings import GATEWAY, OPENAPI, load_settings
from discord_sim.simulator import Simulator

ROOT = Path(__file__).parents[2]
STOP_S = 20.0


def missing_documents() -> list[str]:
    """Return the settings of documents that are missing."""
    return [name for name in (OPENAPI, GATEWAY) if not os.environ.get(name)]


def load_validators() -> Validators:
    """Load the validators whose documents exist."""
    return load_settings().load_validators()


class BotProcess:
    """`python -m tests.discord.bot` against a simulator; what it logs is in a file."""

    def __init__(self, sim: Simulator, log: Path, module: str = "tests.discord.bot") -> None:
        self.sim, self.log, self.module = sim, log, module
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, **settings: str) -> None:
        """Start it; `BOT_API` names the simulator unless settings say otherwise."""
        told = {
            "BOT_TOKEN": self.sim.token,
            "BOT_GUILD": self.sim.guild.id,
            "BOT_API": self.sim.url,
        }
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self.module,
                cwd=ROOT,
                env={**os.environ, **told, **settings},
                stdout=log,
                stderr=log,
            )

    async def ready(self, **settings: str) -> None:
        """Start it, and wait until it is connected. Raises `AssertionError` with its log."""
        before = self.sim.gateway.identified
        await self.start(**settings)
        ready = asyncio.create_task(self.sim.ready(identified=before))
        ended = asyncio.create_task(self.ended())
        await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not ready.done():
            ready.cancel()
            raise AssertionError(f"the bot ended:\n{self.log.read_text()[-2000:]}")
        await ready

    async def ended(self) -> int:
        """Wait for its end, and return the exit code."""
        assert self.process is not None
        return await self.process.wait()

    async def kill(self) -> None:
        """Kill the process."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        """Stop it with SIGTERM, and kill it if it does not end."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_S)
        except TimeoutError:
            await self.kill()
