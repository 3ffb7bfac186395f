"""Three servers, everything three times: the leader is killed under load, and nothing is lost."""

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest
from nats.aio.client import Client

from shared.bus import AgentHeartbeat
from shared.event_log import Conflict, EventLog, RecordedEvent
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.servers.postgresql import ROLES
from tests.contracts.samples import new_event
from tests.support.cluster import NatsCluster
from tests.support.people import Person, add_problem
from tests.support.platform import ROOT, TIMED_AT_ONCE
from tests.support.waits import eventually, find_free_ports
from tests.system.three import REPLICAS, client, leader
from warpboard.processes.services import (
    AGENT,
    AGENT_ID,
    PORTS,
    PlatformConfig,
    Service,
    local_services,
)

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(600),
    # nats-py lets go of a socket unclosed when a server dies between two words of its greeting.
    pytest.mark.filterwarnings("ignore:.*StreamWriter:pytest.PytestUnraisableExceptionWarning"),
]

KILLS = 2
WRITERS = 3
CHAINS = 4
# More than a fail-over was ever seen to take, which is 6 s on a quiet machine.
FAILOVER_S_MAX = 40
# A platform's start, beside other tests.
START_S_MAX = 120
STOP_S_MAX = 30
# Its calls outlast the fail-over.
SLOW = """
import time


def custom_kernel(data):
    time.sleep(0.8)
    data[-1].copy_(data[0])
    return data[-1]
"""


@dataclass
class Written:
    """What was acknowledged: the sequence, what it was written after, and the id."""

    acknowledged: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    count: int = 0
    is_over: bool = False

    def note(self, aggregate: str, seq: int, expected: int, id_: str) -> None:
        """An append came back."""
        self.acknowledged.setdefault(aggregate, []).append((seq, expected, id_))
        self.count += 1


async def chain(log: EventLog, aggregate: str, written: Written) -> None:
    """Append to one aggregate, event after event; rivals may do so, too."""
    last = 0
    while not written.is_over:
        event = new_event(aggregate, last)
        try:
            seq = await log.append(event)
        except Conflict:
            history = await log.history(aggregate)
            last = history[-1].seq if history else 0
            continue
        written.note(aggregate, seq, last, event.envelope.id)
        last = seq


async def pairs(log: EventLog, name: str, written: Written) -> None:
    """Append pairs that stand or fall together."""
    number = 0
    while not written.is_over:
        pair = [new_event(f"job.{name}{number}", 0), new_event(f"run.a1.{name}{number}", 0)]
        seq = await log.append_all(pair)
        for place, event in enumerate(pair, 1 - len(pair)):
            written.note(event.envelope.aggregate, seq + place, 0, event.envelope.id)
        number += 1


async def follow(log: EventLog, seen: list[RecordedEvent]) -> None:
    """Read along from the beginning, for ever."""
    feed = log.follow(0)
    try:
        while True:
            seen += await feed.take()
    finally:
        await feed.close()


async def until_last(nc: Client, seen: list[RecordedEvent]) -> None:
    """Wait until a reader has seen what the leader has."""
    last = await NatsLog(nc).last()
    await eventually(lambda: len(seen) >= last, FAILOVER_S_MAX)


async def everything(nc: Client) -> list[RecordedEvent]:
    """The log as the leader has it: a replica that was just started may have less."""
    seen: list[RecordedEvent] = []
    following = asyncio.create_task(follow(NatsLog(nc), seen))
    await until_last(nc, seen)
    following.cancel()
    await asyncio.wait({following})
    return seen


async def kill_leader(cluster: NatsCluster, nc: Client, written: Written) -> None:
    """SIGKILL whoever leads, see others go on without it, and start it again."""
    name = await eventually(partial(leader, nc), FAILOVER_S_MAX)
    assert name is not None
    cluster.server(name).kill()
    await eventually(more_than(written, written.count + 200), FAILOVER_S_MAX)
    assert not cluster.server(name).is_alive()
    cluster.server(name).start()
    await eventually(partial(leader, nc), FAILOVER_S_MAX)


async def kill_all(cluster: NatsCluster, nc: Client, written: Written) -> None:
    """A power cut of all three: writers wait, and agents are heard again."""
    for server in cluster.servers:
        server.kill()
    cluster.start()
    await eventually(more_than(written, written.count + 200), FAILOVER_S_MAX)
    bus = NatsBus(nc)
    await bus.beat("a1", b"here", 15)
    beats = bus.beats()
    assert await asyncio.wait_for(anext(beats), FAILOVER_S_MAX) == AgentHeartbeat("a1", b"here")


def more_than(written: Written, least: int) -> "partial[bool]":
    return partial(lambda: written.count > least)


async def test_appends_survive_the_leader_then_all_killed_under_load(
    cluster: NatsCluster,
) -> None:
    written, seen = Written(), list[RecordedEvent]()
    async with client(cluster, "operator") as nc:
        await ensure_streams(nc, REPLICAS)
        clients = [await connect(cluster.login(), f"writer{number}") for number in range(WRITERS)]
        logs = [NatsLog(one) for one in clients]
        work = [
            *(
                chain(log, f"job.own{n}_{c}", written)
                for n, log in enumerate(logs)
                for c in range(CHAINS)
            ),
            *(chain(log, f"job.shared{c}", written) for log in logs for c in range(CHAINS)),
            *(
                pairs(log, f"p{n}x{c}x", written)
                for n, log in enumerate(logs)
                for c in range(CHAINS)
            ),
        ]
        writers = [asyncio.create_task(one) for one in work]
        following = asyncio.create_task(follow(NatsLog(nc), seen))
        await eventually(more_than(written, 200), FAILOVER_S_MAX)
        for _ in range(KILLS):
            await kill_leader(cluster, nc, written)
        await kill_all(cluster, nc, written)
        written.is_over = True
        await asyncio.wait_for(asyncio.gather(*writers), FAILOVER_S_MAX)
        await until_last(nc, seen)
        following.cancel()
        await asyncio.wait({following})
        for one in clients:
            await one.close()
    assert_nothing_lost_or_doubled(written, seen)


def assert_nothing_lost_or_doubled(written: Written, seen: list[RecordedEvent]) -> None:
    """The log is what was acknowledged, in unbroken chains; a reader has seen each event once."""
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    ids = Counter(event.envelope.id for event in seen)
    assert [one for one, count in ids.items() if count > 1] == []
    told = {
        id_: (aggregate, seq)
        for aggregate, ones in written.acknowledged.items()
        for seq, _, id_ in ones
    }
    found = {event.envelope.id: (event.envelope.aggregate, event.seq) for event in seen}
    assert found == told
    for aggregate, ones in written.acknowledged.items():
        befores = [0, *(seq for seq, _, _ in sorted(ones))]
        assert [expected for _, expected, _ in sorted(ones)] == befores[:-1], aggregate


@asynccontextmanager
async def platform(folder: Path, cluster: NatsCluster, dsn: str) -> AsyncIterator[str]:
    """Every service as its own process, on servers that are there; the URL of ingest."""
    ports = dict(zip(PORTS, find_free_ports(len(PORTS)), strict=True))
    tokens = ("a-token-for-the-cluster", "a-key-of-readers")
    dsns = dict.fromkeys(ROLES, dsn)
    place = PlatformConfig(
        folder, cluster.url, cluster.credentials, [AGENT_ID], dsns, ports, *tokens
    )
    running = [started(service, folder) for service in local_services(place)]
    try:
        yield f"http://{place.at('ingest')}"
    finally:
        for process in running:
            process.terminate()
        codes = [ended(process) for process in running]
    assert codes == [0] * len(running), "a service ended badly, or not in time"


def started(service: Service, folder: Path) -> "subprocess.Popen[bytes]":
    """A service that keeps three replicas of everything; an agent makes no streams."""
    replicas = f"WARPBOARD_{service.name.upper().replace('-', '_')}_REPLICAS"
    told = {} if service.name == AGENT else {replicas: str(REPLICAS)}
    with (folder / f"{service.name}.log").open("wb") as log:
        return subprocess.Popen(
            service.command,
            env={**os.environ, **TIMED_AT_ONCE, **service.environ, **told},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def ended(process: "subprocess.Popen[bytes]") -> int:
    """The exit code of a service that was asked to end, killed if it does not."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(STOP_S_MAX)
    process.kill()
    return process.wait(STOP_S_MAX)


def free_agents(url: str) -> bool:
    with suppress(httpx.HTTPError, KeyError, ValueError):
        items = httpx.get(f"{url}/v1/agents", timeout=2).json()["items"]
        return any(item["is_free"] for item in items)
    return False


async def test_a_submission_ends_once_when_the_leader_is_killed_under_it(
    cluster: NatsCluster, tmp_path: Path, postgres_dsn: str
) -> None:
    folder = tmp_path / "platform"
    folder.mkdir()
    async with (
        client(cluster, "operator") as nc,
        platform(folder, cluster, postgres_dsn) as url,
    ):
        await eventually(partial(asyncio.to_thread, free_agents, url), START_S_MAX)
        await eventually(partial(asyncio.to_thread, is_published, url), START_S_MAX)
        with Person(url, "ada") as ada:
            number = await asyncio.to_thread(ada.submit, SLOW)
            await eventually(partial(asyncio.to_thread, is_running, ada, number), FAILOVER_S_MAX)
            name = await eventually(partial(leader, nc), FAILOVER_S_MAX)
            assert name is not None
            cluster.server(name).kill()
            end = await asyncio.to_thread(ada.end, number)
            cluster.server(name).start()
        assert (end["outcome"], end["attempt"]) == ("passed", 1), end["reason"]
        log = await everything(nc)
    own = [event for event in log if event.envelope.aggregate == f"submission.{end['id']}"]
    ends = [event.envelope.type for event in own if type(event.fact).is_terminal]
    assert ends == ["SubmissionFinished"]


def is_published(url: str) -> bool:
    """Publish the problem; False while ingest does not yet know who may do so."""
    with suppress(AssertionError):
        add_problem(url, ROOT / "problems" / "identity")
        return True
    return False


def is_running(ada: Person, number: int) -> bool:
    found = ada.http.get(f"/v1/submissions/{number}", params={"wait_s": 1})
    return found.status_code == 200 and found.json()["state"] == "running"
