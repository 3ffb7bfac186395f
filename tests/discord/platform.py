"""The real platform, the simulated Discord, and the real bot between them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from discord_edge.settings import PREFIX
from discord_sim.cdn import FileUpload
from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from tests.discord.bot_process import BotProcess
from tests.support.people import HONEST
from tests.support.platform import PATIENT, StrictRunning
from tests.support.waits import eventually

# The marks of the tests by the real bot before the real platform.
EDGE_MARKS = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]
EDGE_TOKEN = "a-token-of-the-edge"
END_S = 240.0
KERNEL = FileUpload("kernel.py", "text/x-python", HONEST.encode())
BOARD = {"leaderboard_name": "identity"}
RANKED = "leaderboard submit ranked"
# Accounts for agents that a test's own launchers start.
GITHUB_AGENT, MODAL_AGENT = "github-1", "modal-1"


@dataclass
class EdgePlatform:
    """A platform with users on Discord; the bot is a process that may be killed."""

    running: StrictRunning
    sim: Simulator
    log: Path
    dsn: str
    roles: dict[str, str] = field(default_factory=dict)
    # What the edge is told beside what it needs.
    more: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bot = BotProcess(self.sim, self.log, "discord_edge")

    async def start(self) -> None:
        """Start the bot, and wait until it is connected."""
        await self.bot.ready(**{**self.told(), **self.more})

    def told(self) -> dict[str, str]:
        """Return the bot's settings."""
        settings = {
            "INGEST_URL": self.running.url,
            "POSTGRES_DSN": self.dsn,
            "OPS_LISTEN": "127.0.0.1:0",
            "GUILD": self.sim.guild.id,
            "TOKEN": self.sim.token,
            "EDGE_TOKEN": EDGE_TOKEN,
            "API_URL": self.sim.url,
            "ROLES": ",".join(f"{one}={role}" for one, role in self.roles.items()),
        }
        return {f"{PREFIX}_{name}": text for name, text in settings.items()}

    async def kill(self) -> None:
        """Kill the bot."""
        await self.bot.kill()

    async def stop(self) -> None:
        """Stop the bot with SIGTERM."""
        await self.bot.stop()


def launch_platform(folder: Path, **more: str) -> StrictRunning:
    """Start a strict platform that accepts the bot, with a free agent, and with more settings."""
    told = {
        "EDGE_TOKEN": EDGE_TOKEN,
        "EDGE_ROLES": "moderator,admin",
        **more,
    }
    settings = {f"WARPBOARD_INGEST_{name}": text for name, text in told.items()}
    settings["WARPBOARD_AGENTS"] = f"{GITHUB_AGENT} {MODAL_AGENT}"
    found = StrictRunning(folder, PATIENT | settings)
    try:
        found.up()
        return found
    except BaseException:
        # Nobody else knows of it.
        if found.process is not None and found.process.poll() is None:
            found.stop()
        raise


async def wait_until_known(person: Member, channel: str, name: str = "identity") -> None:
    """Wait until the bot completes a leaderboard."""
    typed = {"leaderboard_name": name[:3]}

    async def offered() -> bool:
        found = await person.autocomplete(channel, RANKED, "leaderboard_name", **typed)
        return name in [one["value"] for one in found]

    await eventually(offered, END_S)


async def newest_thread(sim: Simulator, person: Member, channel: str) -> str:
    """Return the id of a user's newest thread in a channel."""
    threads = await sim.record.until(lambda: person.threads(channel), "a thread", END_S)
    return str(threads[-1]["id"])


def has_more_threads(person: Member, channel: str, before: int) -> bool:
    """Whether a user has more threads than before."""
    return len(person.threads(channel)) > before


async def wait_for_report(sim: Simulator, person: Member, room: str) -> tuple[Any, Any]:
    """Wait until a submission is over, and return its status and report messages."""

    def over() -> Any:
        seen = person.sees(room)
        marks = ("✅", "❌")
        if len(seen) >= 2 and seen[0]["content"].rpartition("\n")[2].startswith(marks):
            return seen
        return None

    seen = await sim.record.until(over, "a report", END_S)
    return seen[0], seen[1]
