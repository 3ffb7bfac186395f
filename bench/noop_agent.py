"""Agents without a harness, many in one process: the real loop, and runs that pass at once.

`python -m bench.noop_agent`, told by WARPBOARD_NOOP_* what `Settings` names, lives until SIGTERM
as `count` agents `<names>-0`, `<names>-1`, and so on, of one GPU type. A run takes a drawn time,
but its verdict and its score follow from the source alone: the same file has the same ones on each
of them, always. A ranked run draws the problem's hidden sizes from its key, as the harness does.
"""

import asyncio
import hashlib
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from nacl.signing import SigningKey

from gpu_agent.domain import Demand, Machine, RunFiles, build_registration
from gpu_agent.service import Agent, Reporter, RunObserver
from harness.hidden_sizes import HiddenFamily, draws_hidden_sizes, hidden_case_name
from harness.vocabulary import MODES, PASSED, STAGES, SUBMISSION_MODES
from shared.blobs import BlobStore
from shared.bus_keys.authority import Authority
from shared.bus_keys.login import BusLogin
from shared.bus_keys.permissions import AGENT_PREFIX, SYSTEM_USER
from shared.clock import new_id
from shared.errors import Refused
from shared.evaluations import JSON_LINES, RESULTS_NAME, ItemResult, encode_lines, read_items
from shared.events import (
    AgentRegistered,
    CaseResult,
    ChunkVerdicts,
    Fact,
    JobAssigned,
    RunCompleted,
    RunStarted,
    StageResult,
)
from shared.lifecycle import run_main
from shared.nats.account_deployment import deploy_accounts
from shared.nats.agent import AgentBlobStore, AgentBus, AgentLog, open_inbox
from shared.nats.connection import connect
from shared.problems.hidden_sizes import read_families
from shared.settings import read_settings
from shared.signing import public_key

PROCESSES = 4
FREEDOM = 22
SPREAD = 0.002
MACHINE = Machine("2", "strong", "C1", [], {}, {"gpu": "none"})
DEMAND = Demand("strong", ("C1",))


@dataclass(frozen=True)
class Settings:
    """Where the bus is, who these agents are, how long a run takes, and the seed of its draw.

    `keys` is the folder of the bus's keys, from which each agent gets a user of its own;
    `wrong_share` of all sources are wrong.
    """

    nats_url: str
    keys: Path = Path("keys")
    count: int = 1
    names: str = "noop"
    gpu: str = "H100"
    took_s_min: float = 0.0
    took_s_max: float = 0.0
    heartbeat_s: float = 5.0
    seed: int = 0
    wrong_share: float = 0.0


class Unwatched:
    """Nobody counts."""

    def said(self, fact: Fact) -> None:
        """A fact of a run is in the log."""

    def lost(self) -> None:
        """A lease was over before its run had a result."""

    def looked(self, *, runs: int, slots: int, is_well: bool) -> None:
        """How the agent is."""


@dataclass(frozen=True)
class NoopRuns:
    """Runs that end after a drawn time; keeps the port gpu_agent.service.Runs.

    Without `blobs` they know no problem, so they draw no hidden sizes.
    """

    dice: random.Random
    took_s_min: float = 0.0
    took_s_max: float = 0.0
    wrong_share: float = 0.0
    blobs: BlobStore | None = None
    families: dict[str, list[HiddenFamily]] = field(default_factory=dict)

    async def run(self, order: JobAssigned, observer: RunObserver) -> tuple[RunCompleted, RunFiles]:
        """Say the stages of the mode, up to the check if the source is wrong."""
        took_s = self.dice.uniform(self.took_s_min, self.took_s_max)
        key = self.dice.randbytes(32)
        families = await self._read_families(order)
        await observer.report_start(
            RunStarted(
                fingerprint=observer.registration.fingerprint,
                harness="2",
                level="strong",
                tier="C1",
                key_commit=hashlib.sha256(key).hexdigest(),
            )
        )
        if order.chunk is not None:
            return await self._run_chunk(order, observer, took_s, key)
        digest = order.source.digest
        verdict = verdict_of(digest, self.wrong_share)
        stages = MODES[order.mode].stages[: None if verdict == PASSED else 2]
        for stage in stages:
            if took_s:
                await asyncio.sleep(took_s / len(stages))
            said, spent_s = verdict if stage == stages[-1] else PASSED, took_s / len(stages)
            await observer.report_stage(
                StageResult(stage=stage, verdict=said, took_s=spent_s, cases=1)
            )
        drawn = [case for family in families for case in _draw_cases(family, key, digest)]
        cases = [
            case
            for stage in stages
            for case in (
                *_cases(stage, digest, verdict),
                *(case for case in drawn if case.stage == stage),
            )
        ]
        completed = RunCompleted(
            verdict=verdict,
            stage=stages[-1],
            reason="",
            cases=cases,
            took_s=took_s,
            key=key.hex(),
            environment=dict(MACHINE.environment),
        )
        return completed, RunFiles()

    async def _read_families(self, order: JobAssigned) -> list[HiddenFamily]:
        """The families that a run draws cases from; a problem is read once."""
        if self.blobs is None or order.chunk is not None or not draws_hidden_sizes(order.mode):
            return []
        digest = order.problem_digest
        if digest not in self.families:
            self.families[digest] = read_families(json.loads(await self.blobs.get(digest)))
        return self.families[digest]

    async def _run_chunk(
        self, order: JobAssigned, observer: RunObserver, took_s: float, key: bytes
    ) -> tuple[RunCompleted, RunFiles]:
        """End the items of a chunk one by one, until the run is asked to stop."""
        chunk, results = order.chunk, list[ItemResult]()
        assert chunk is not None, "it is the order of a chunk"
        assert self.blobs is not None, "the sources of a chunk are a blob"
        items = read_items(await self.blobs.get(order.source.digest))
        for number in range(chunk.first, chunk.first + chunk.count):
            if results and observer.lease.is_stopping:
                break
            await asyncio.sleep(took_s / chunk.count)
            digest = hashlib.sha256(items[number].source.encode()).hexdigest()
            verdict = verdict_of(digest, self.wrong_share)
            result = ItemResult(item=number, id=items[number].id, verdict=verdict, stage="check")
            results.append(result)
        completed = RunCompleted(
            verdict=PASSED,
            stage="",
            reason="",
            cases=[],
            took_s=took_s,
            key=key.hex(),
            environment=dict(MACHINE.environment),
            chunk=ChunkVerdicts(first=chunk.first, verdicts=[one.verdict for one in results]),
        )
        return completed, RunFiles(artefacts=[(RESULTS_NAME, JSON_LINES, encode_lines(results))])

    async def health(self) -> str:
        """There is nothing that could be unhealthy."""
        return ""


def verdict_of(digest: str, wrong_share: float) -> str:
    """The verdict of a source, from its SHA-256 alone.

    >>> verdict_of("00" * 32, 0.5), verdict_of("ff" * 32, 0.5), verdict_of("00" * 32, 0.0)
    ('wrong_answer', 'passed', 'passed')
    """
    return "wrong_answer" if int(digest[:8], 16) < wrong_share * 16**8 else PASSED


def _cases(stage: str, digest: str, verdict: str) -> list[CaseResult]:
    """The one public case of a stage."""
    if stage == "build":
        return []
    if stage == "time":
        return [_time("size: 65536", digest)]
    is_hidden = STAGES[stage].is_hidden
    return [CaseResult(name="size: 1024", stage=stage, verdict=verdict, is_hidden=is_hidden)]


def _draw_cases(family: HiddenFamily, key: bytes, digest: str) -> Iterator[CaseResult]:
    """The cases that a run with a key draws from a family; it passes all of them."""
    for number, _ in enumerate(family.draw(key), 1):
        name = hidden_case_name(family.group, number)
        if family.group == "tests":
            yield CaseResult(name=name, stage="hidden_check", verdict=PASSED, is_hidden=True)
        else:
            timed = _time(name, digest)
            yield msgspec.structs.replace(timed, weight=family.weight, is_hidden=True)


def _time(name: str, digest: str) -> CaseResult:
    """A timed case, as fast as its source's digest says."""
    times = time_us(digest)
    middle = sum(times) / len(times)
    return CaseResult(
        name=name,
        stage="time",
        verdict=PASSED,
        time_us=middle,
        interval_us=(middle * (1 - SPREAD), middle * (1 + SPREAD)),
        samples=100 * PROCESSES,
        process_us=times,
        error=SPREAD / 2,
        freedom=FREEDOM,
        grade="ok",
    )


def time_us(digest: str) -> list[float]:
    """The time of a source in each fresh process, from its SHA-256 alone.

    >>> time_us("00" * 32) == time_us("00" * 32)
    True
    """
    dice = random.Random(digest)  # noqa: S311  (no secret, and always the same)
    middle = dice.uniform(100.0, 10_000.0)
    return [round(middle * dice.uniform(1 - SPREAD, 1 + SPREAD), 3) for _ in range(PROCESSES)]


def names(prefix: str, count: int) -> Iterator[str]:
    """What the agents of one process are called."""
    return (f"{prefix}-{index}" for index in range(count))


def sign_key(name: str) -> SigningKey:
    """An agent's key, which follows from its name: nothing here is worth a secret."""
    return SigningKey(hashlib.sha256(f"noop/{name}".encode()).digest())


def enrolment(name: str) -> dict[str, str]:
    """What an operator sends to enrol an agent."""
    return {"sign_key": public_key(sign_key(name)), "owner": "bench", "reason": "no-op agent"}


def agent_registration(gpu: str) -> AgentRegistered:
    """What an agent here offers: all modes but duels, for which it has no runs."""
    offered = build_registration(gpu, MACHINE, DEMAND, {})
    modes = [mode for mode in offered.modes if mode in SUBMISSION_MODES]
    return msgspec.structs.replace(offered, modes=modes)


async def _serve(settings: Settings, stopping: asyncio.Event) -> None:
    """All agents, each on a connection, until `stopping`; the failure of one ends all."""
    authority = Authority(settings.keys)
    agents_named = list(names(settings.names, settings.count))
    paths = authority.ensure_users(*(f"{AGENT_PREFIX}{name}" for name in agents_named))
    credentials = dict(zip(agents_named, map(str, paths), strict=True))
    operator = BusLogin(settings.nats_url, str(authority.credentials_path(SYSTEM_USER)))
    jwts = [authority.account_jwt(f"{AGENT_PREFIX}{name}") for name in credentials]
    await deploy_accounts(operator, jwts)
    async with AsyncExitStack() as stack:
        agents = []
        for name, path in credentials.items():
            nc = await connect(BusLogin(settings.nats_url, path), name, closed=stopping.set)
            stack.push_async_callback(nc.close)
            # No secret is drawn, and the same seed draws the same.
            dice = random.Random(f"{settings.seed}/{name}")  # noqa: S311
            took_s = settings.took_s_min, settings.took_s_max
            blobs = AgentBlobStore(nc, name)
            agents.append(
                Agent(
                    session=new_id(),
                    reporter=Reporter(name, AgentLog(nc, name), sign_key(name)),
                    blobs=blobs,
                    bus=AgentBus(nc, name),
                    runs=NoopRuns(dice, *took_s, settings.wrong_share, blobs),
                    metrics=Unwatched(),
                    registration=agent_registration(settings.gpu),
                    began=await open_inbox(nc, name),
                    heartbeat_s=settings.heartbeat_s,
                )
            )
        await asyncio.gather(*(agent.serve(stopping) for agent in agents))


async def _live(settings: Settings) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        await _serve(settings, stopping)
    finally:
        if not stopping.is_set():
            # The others may be in a request that does not let itself be cancelled.
            traceback.print_exc()
            os._exit(1)


def main() -> int:
    """Live until a signal; 2 if the settings are refused."""
    try:
        settings = read_settings(Settings, "WARPBOARD_NOOP", os.environ)
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return 2
    run_main(_live(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
