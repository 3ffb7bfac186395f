"""How soon the bot answers, by 1 and by 50 people on Discord who do something at the same time.

`python -m bench.discord [--rounds N] [--smoke]`. The platform, the bot and a simulated Discord run
on this machine. Each person types what the bot completes, looks at leaderboards, presses a button
and submits, and does the next thing as soon as the bot said something. What is told is the time
from an interaction to its acknowledgement, as Discord sees it, which takes none after three
seconds.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.figures import Figure, at_most, report
from bench.noop_platform import (
    EDGE_TOKEN,
    GPU,
    PROBLEM,
    ROOT,
    SOURCE,
    Platform,
    cpu_s,
    load,
    running_platform,
    stop,
)
from discord_sim.cdn import FileUpload
from discord_sim.simulator import Simulator
from discord_sim.state import AUTOCOMPLETE, COMMAND, COMPONENT, Interaction
from discord_sim.users import SimulatedUser
from shared.servers.postgresql import Postgres
from tests.support.waits import eventually

AGENTS, PEOPLE, PEOPLE_SMOKE, ROUNDS = 4, (1, 50), (2,), 4
# Discord takes no acknowledgement that is later.
ACKNOWLEDGED_MS_MAX = 3000.0
SUBMIT, SHOW = "leaderboard submit test", "leaderboard show"
KINDS = {COMMAND: "command", COMPONENT: "button", AUTOCOMPLETE: "completion"}
KNOWN_S_MAX, ANSWER_S_MAX = 60.0, 120.0


class Row(NamedTuple):
    """How soon so many interactions of a kind were acknowledged, in milliseconds."""

    kind: str
    times: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    def __str__(self) -> str:
        """As it is printed."""
        took = f"p50 {self.p50_ms:7.1f}  p99 {self.p99_ms:7.1f}  max {self.max_ms:7.1f} ms"
        return f"  {self.kind:<11}{self.times:>5}  {took}"


def rows(seen: Sequence[Interaction]) -> list[Row]:
    """A row for each kind, then one for all."""
    heard = [one for one in seen if one.callback is not None]
    by_kind = {name: [one for one in heard if one.kind == kind] for kind, name in KINDS.items()}
    return [_row(name, found) for name, found in (*by_kind.items(), ("all", heard)) if found]


def _row(kind: str, seen: Iterable[Interaction]) -> Row:
    took_ms = sorted(1000 * one.latency_s for one in seen)
    at = [took_ms[min(len(took_ms) - 1, int(part * len(took_ms)))] for part in (0.5, 0.99)]
    return Row(kind, len(took_ms), at[0], at[1], took_ms[-1])


@dataclass(frozen=True)
class Visitor:
    """Somebody in a channel, and for which GPU type they submit."""

    person: SimulatedUser
    channel: str
    gpu: str

    async def look(self) -> None:
        """Complete a name, and look at that leaderboard."""
        await self.person.autocomplete(self.channel, SHOW, "leaderboard_name", leaderboard_name="i")
        await self._done(SHOW, leaderboard_name=PROBLEM, gpu=self.gpu)

    async def browse(self) -> None:
        """Look at what there is."""
        await self._done("leaderboard list")
        await self._done("leaderboard help")

    async def find(self) -> None:
        """Complete the number of an own submission, and see who waits."""
        path, option = "leaderboard get-submission", "submission_id"
        await self.person.autocomplete(self.channel, path, option, submission_id="")
        await self._done("leaderboard queue")

    async def submit(self) -> None:
        """Submit."""
        await self.person.autocomplete(self.channel, SUBMIT, "gpu", gpu=self.gpu[:1])
        source = f"{SOURCE}# {time.time_ns()}".encode()
        script = FileUpload("kernel.py", "text/x-python", source)
        await self._done(SUBMIT, script=script, leaderboard_name=PROBLEM, gpu=self.gpu)

    async def _done(self, path: str, **given: Any) -> None:
        await (await self.person.slash(self.channel, path, **given)).answered(ANSWER_S_MAX)

    async def visit(self, number: int, rounds: int) -> None:
        """Do one thing after the other, others something else meanwhile."""
        acts = (self.look, self.submit, self.browse, self.find)
        for turn in range(rounds):
            await acts[(number + turn) % len(acts)]()


async def crowd(sim: Simulator, visitors: Sequence[Visitor], rounds: int) -> list[Interaction]:
    """What became of all that so many people did at the same time; who is not answered leaves."""
    before = set(sim.interactions.by_token)
    visits = (one.visit(number, rounds) for number, one in enumerate(visitors))
    await asyncio.gather(*visits, return_exceptions=True)
    return [one for token, one in sim.interactions.by_token.items() if token not in before]


async def _known(visitor: Visitor) -> None:
    """Wait until the bot has heard of the leaderboard."""
    await eventually(
        lambda: visitor.person.autocomplete(
            visitor.channel, SHOW, "leaderboard_name", leaderboard_name="i"
        ),
        KNOWN_S_MAX,
    )


def _edge(platform: Platform, sim: Simulator) -> "subprocess.Popen[bytes]":
    """The bot's process."""
    told = {
        "INGEST_URL": platform.url,
        "POSTGRES_DSN": Postgres(platform.folder / "postgres").dsn_of("discord_edge"),
        "OPS_LISTEN": "127.0.0.1:0",
        "GUILD": sim.guild.id,
        "TOKEN": sim.token,
        "EDGE_TOKEN": EDGE_TOKEN,
        "API_URL": sim.url,
    }
    environ = os.environ | {f"WARPBOARD_DISCORD_EDGE_{key}": value for key, value in told.items()}
    command = [sys.executable, "-m", "discord_edge"]
    return subprocess.Popen(command, env=environ, cwd=ROOT, stderr=subprocess.DEVNULL)


async def measure(platform: Platform, rounds: int, numbers: Sequence[int]) -> list[Figure]:
    """Print rows for each number of people."""
    figures = []
    async with Simulator() as sim:
        edge = _edge(platform, sim)
        try:
            await sim.ready(KNOWN_S_MAX)
            channel = await sim.add_channel("lobby")
            await _known(Visitor(sim.person("first"), channel, GPU))
            for people in numbers:
                names = [f"person{people}x{n}" for n in range(people)]
                visitors = [Visitor(sim.person(name), channel, GPU) for name in names]
                before_s = cpu_s(edge.pid)
                seen = await crowd(sim, visitors, rounds)
                late = sum(one.is_failed for one in seen)
                cost_ms = 1000 * (cpu_s(edge.pid) - before_s) / len(seen)
                print(f"{people} people, {rounds} rounds, {late} too late; {load()}")
                found = rows(seen)
                print(*found, f"  the bot took {cost_ms:.1f} ms of a core for each", sep="\n")
                who, slowest = f"{people} people", found[-1]
                goal = at_most(ACKNOWLEDGED_MS_MAX)
                figures += [
                    Figure(name=f"{who}: p99", measured=slowest.p99_ms, unit="ms", goal=goal),
                    Figure(name=f"{who}: too late", measured=late, goal=at_most(0)),
                ]
        finally:
            await asyncio.to_thread(stop, edge)
    return figures


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{ROUNDS} unless said")
    parser.add_argument("--smoke", action="store_true", help="two people, one round")
    told = parser.parse_args()
    rounds, people = (1, PEOPLE_SMOKE) if told.smoke else (told.rounds, PEOPLE)
    with running_platform(AGENTS) as platform:
        figures = asyncio.run(measure(platform, rounds, people))
    report(figures)


if __name__ == "__main__":
    main()
