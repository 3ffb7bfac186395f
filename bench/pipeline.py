"""Submissions/s through HTTP to the leaderboard, and what the platform adds to a run.

`python -m bench.pipeline [--quick | --smoke] [--agents N ...]`. No-op agents pass at once, so all
time is the platform's. Sustained: as many clients as the bare limit's widest window, each of which
submits, waits until its submission is over in the log, and submits again. Half load: submissions at
fixed instants, half as many a second. Beside it, on the same nats-server and so with the same
durability (every append synced), the bare publish limit.
"""

import argparse
import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, NamedTuple

from nats.aio.client import Client as Bus

from bench.figures import Figure, at_least, at_most, report
from bench.intervals import mean_interval, p99
from bench.noop_platform import (
    GPU,
    PROBLEM,
    SOURCE,
    Platform,
    load,
    running_platform,
    spent,
    stop,
)
from bench.pipeline_client import Client
from bench.pipeline_log import END_S_MAX, STEPS, Witness, read_back
from shared.lifecycle import run_main
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog

WINDOWS = (1, 64, 256)
AGENTS_S_MAX = 120.0
SETTLE_S = 2.0
# What is sustained is counted in so many slices, whose spread says how precise it is.
SLICES = 8


class Plan(NamedTuple):
    """How many agents, and for how long each part is measured."""

    agents: tuple[int, ...]
    warm_s: float
    measured_s: float
    publishes: int
    clients: int = WINDOWS[-1]


LONG = Plan((1, 10, 100, 1000), 2.0, 8.0, 10_000)
QUICK = Plan((1, 10), 1.0, 4.0, 4_000)
SMOKE = Plan((2,), 0.2, 0.5, 400, clients=8)
# Of the bare limit of durable publishes, and of what the platform adds at half load.
SHARE_MIN, ADDED_MS_MAX = 0.5, 100.0
# Of all processes of the platform and of its agents, while as many are submitted as it can take.
PROCESSES = ("ingest", "scheduler", "ranker", "nats-server", "Postgres", "agents")
COST_MS_MAX, EVENTS_MAX = 4.5, 5.0


async def _one(client: Client, witness: Witness, who: str, number: int) -> float:
    """One submission: the seconds from the request to its end in the log."""
    began = time.perf_counter()
    source = f"TURN = '{who} {number} {began}'\n{SOURCE}".encode()
    answer = await client.submit(who, source, problem=PROBLEM, gpu=GPU)
    assert answer.status == 202, answer
    return await witness.end(answer.json()["submissions"][0]["id"]) - began


async def sustained(
    platform: Platform, log: NatsLog, witness: Witness, plan: Plan, agents: int
) -> dict[str, Any]:
    """Ended submissions and events per second when steady, and processor milliseconds of each."""

    async def work(number: int) -> None:
        async with Client(platform.url) as client:
            for turn in range(1_000_000):
                await _one(client, witness, f"p{number}", turn)

    async with _beside(*(work(number) for number in range(plan.clients))):
        await asyncio.sleep(plan.warm_s)
        ends, events, began = witness.ends, await log.last(), time.perf_counter()
        pids = platform.pids() | {"agents": agents}
        before, ours = spent(pids), time.process_time()
        rates = [await _rate(witness, plan.measured_s / SLICES) for _ in range(SLICES)]
        took_s = time.perf_counter() - began
        done = max(1, witness.ends - ends)
        cost = {name: 1e3 * (s - before[name]) / done for name, s in spent(pids).items()}
        cost["bench"] = 1e3 * (time.process_time() - ours) / done
        events = await log.last() - events
    return {"rate": done / took_s, "rates": rates, "events": events / took_s} | cost


async def _rate(witness: Witness, for_s: float) -> float:
    """Submissions that ended per second, for a while."""
    ends, began = witness.ends, time.perf_counter()
    await asyncio.sleep(for_s)
    return (witness.ends - ends) / (time.perf_counter() - began)


@contextlib.asynccontextmanager
async def _beside(*jobs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Jobs that run meanwhile; the first failure is ours."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def paced(platform: Platform, witness: Witness, rate: float, plan: Plan) -> list[float]:
    """Seconds from each request to its end, at a fixed rate, whatever the answers take."""
    free: asyncio.Queue[Client] = asyncio.Queue()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(plan.clients):
            free.put_nowait(await stack.enter_async_context(Client(platform.url)))

        async def submit(number: int, due: float) -> float:
            client = await free.get()
            try:
                took_s = await _one(client, witness, f"p{number % plan.clients}", number)
            finally:
                free.put_nowait(client)
            return took_s + max(0.0, time.perf_counter() - took_s - due)

        began = time.perf_counter()
        tasks = []
        for number in range(max(20, int(rate * plan.measured_s))):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(submit(number, due)))
        return list(await asyncio.gather(*tasks))


async def bare(bus: Bus, publishes: int, size: int) -> dict[int, float]:
    """Durable publishes/s of the bare client on this server, by how many are under way at once."""
    stream = bus.jetstream(timeout=END_S_MAX)
    await stream.add_stream(name="BARE", subjects=["bare.>"])
    data = bytes(size)

    async def publish(numbers: Iterator[int]) -> None:
        for number in numbers:
            await stream.publish(f"bare.{number % 1000}", data)

    found = {}
    for window in WINDOWS:
        count = publishes if window > 1 else publishes // 4
        numbers = iter(range(count))
        began = time.perf_counter()
        await asyncio.gather(*(publish(numbers) for _ in range(window)))
        found[window] = count / (time.perf_counter() - began)
    await stream.delete_stream("BARE")
    return found


async def _await_agents(bus: Bus, count: int, names: str) -> None:
    """Until so many agents live and the scheduler has had the time to hear of them."""
    alive: set[str] = set()
    async with asyncio.timeout(AGENTS_S_MAX):
        async for beat in NatsBus(bus).beats():
            if beat.value is not None and beat.agent.startswith(f"{names}-"):
                alive.add(beat.agent)
            if len(alive) == count:
                break
    await asyncio.sleep(SETTLE_S)


async def with_agents(
    platform: Platform, bus: Bus, witness: Witness, count: int, plan: Plan
) -> dict[str, Any]:
    """What is measured with so many agents."""
    names, log = f"noop{count}", NatsLog(bus)
    process = platform.agents(count, names)
    try:
        await _await_agents(bus, count, names)
        found: dict[str, Any] = await sustained(platform, log, witness, plan, process.pid)
        await asyncio.sleep(SETTLE_S)
        began = await log.last()
        found["latencies"] = await paced(platform, witness, found["rate"] / 2, plan)
        found["story"] = await read_back(log, began, await log.last())
    finally:
        await asyncio.to_thread(stop, process)
    return found | {"count": count, "load": load()}


def _print(found: dict[str, Any], many: float) -> list[Figure]:
    """Print what was measured with some agents, over the bare limit."""
    latencies = [1e3 * one for one in found["latencies"]]
    p50, slow = statistics.median(latencies), p99(latencies)
    print(
        f"{found['count']:6} agents  {found['rate']:7.1f} submissions/s  "
        f"{found['events']:7.0f} events/s  {found['events'] / many:5.2f} of the bare limit;  "
        f"half load: p50 {p50:.0f} ms, p99 {slow.value:.0f} ms {slow.interval}  ({found['load']})"
    )
    for what, times in (
        ("median", found["story"].steps_ms),
        ("99th percentile", found["story"].slow_steps_ms),
    ):
        steps = "  ".join(f"{name} {ms:.0f}" for name, ms in zip(STEPS[1:], times, strict=False))
        print(f"              half load, {what} ms to each: {steps}")
    costs = "  ".join(f"{name} {found[name]:.2f}" for name in PROCESSES)
    cost_ms, events = sum(found[name] for name in PROCESSES), found["events"] / found["rate"]
    print(
        f"              per submission: {cost_ms:.2f} ms of processor ({costs}), "
        f"{events:.2f} events; beside it bench {found['bench']:.2f} ms"
    )
    who, share = f"{found['count']} agents", found["events"] / many
    appends = "every event is an append of its own, synced one after the other"
    events_needed = (
        "each event excludes a rival or is the decision of another service "
        "(docs/adr/leases-and-orders.md, docs/adr/submissions.md)"
    )
    shared_cores = (
        "services, agents and clients share the cores of one machine (docs/adr/read-models.md)"
    )
    return [
        Figure(
            name=f"{who}: submissions",
            measured=found["rate"],
            unit="/s",
            interval=mean_interval(found["rates"]),
        ),
        Figure(
            name=f"{who}: events of bare publishes",
            measured=share,
            goal=at_least(SHARE_MIN),
            note=appends,
        ),
        Figure(
            name=f"{who}: processor per submission",
            measured=cost_ms,
            unit="ms",
            goal=at_most(COST_MS_MAX),
            note="few or very many agents share less of what a batch costs "
            "(docs/adr/read-models.md)",
        ),
        Figure(
            name=f"{who}: events per submission",
            measured=events,
            goal=at_most(EVENTS_MAX),
            note=events_needed,
        ),
        Figure(
            name=f"{who}: p99 at half load",
            measured=slow.value,
            unit="ms",
            interval=slow.interval,
            goal=at_most(ADDED_MS_MAX),
            note=shared_cores,
        ),
    ]


async def measure(platform: Platform, plan: Plan) -> list[Figure]:
    """Every number of agents in turn, then the bare limit, then the ratios."""
    bus = await connect(platform.bus_login, "bench")
    log, witness = NatsLog(bus), Witness()
    async with _beside(witness.watch(log, await log.last())):
        rows = [await with_agents(platform, bus, witness, count, plan) for count in plan.agents]
    size = rows[-1]["story"].bytes_mean
    found = await bare(bus, plan.publishes, size)
    rates = ", ".join(f"{rate:.0f}/s with {window} at once" for window, rate in found.items())
    print(f"bare durable publishes of {size} bytes: {rates} ({load()})")
    figures = [figure for row in rows for figure in _print(row, max(found.values()))]
    if witness.bad:
        print(f"not ranked: {witness.bad}")
    await bus.close()
    return figures


def main() -> None:
    """Measure on a platform of our own, and stop it."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer agents, a few seconds each")
    parser.add_argument("--smoke", action="store_true", help="two agents for a second")
    parser.add_argument("--agents", type=int, nargs="+", help="numbers of one's own")
    told = parser.parse_args()
    plan = SMOKE if told.smoke else QUICK if told.quick else LONG
    plan = plan._replace(agents=tuple(told.agents or plan.agents))
    with running_platform() as platform:
        figures = run_main(measure(platform, plan))
    report(figures)


if __name__ == "__main__":
    main()
