"""Requests/s and times of the API: submit, poll and follow, by 1, 50 and 200 clients.

`python -m bench.api [--quick | --smoke]`. No-op agents pass at once. Each client has a connection
of its own and asks again as soon as it is answered. Beside each, the same number of clients asks
the same server for GET /health, which reads no log and no read model: the ratio says what a route
costs beyond HTTP itself. Clients and platform share the machine.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.figures import Figure, report
from bench.intervals import Percentile, p99
from bench.noop_platform import GPU, PROBLEM, SOURCE, load, running_platform
from bench.pipeline_client import Client

AGENTS = 4
CLIENTS, CLIENTS_SMOKE = (1, 50, 200), (2,)
LONG_S, QUICK_S, SMOKE_S = 4.0, 2.0, 0.1
END_S_MAX = 120.0
# For what was submitted to be over, so that the next row begins in peace.
REST_S = 5.0
Ask = Callable[[Client, str, int], Awaitable[None]]


class Row(NamedTuple):
    """What some clients got of a route."""

    route: str
    clients: int
    per_s: float
    p50_ms: float
    p99_ms: Percentile

    def told(self, bare: "Row | None" = None) -> str:
        """The row as it is printed."""
        ratio = f"  {bare.per_s / self.per_s:6.1f} x GET /health" if bare else ""
        what = f"{self.route:<9} {self.clients:>3} clients  {self.per_s:8.1f}/s"
        p99_ms, interval = self.p99_ms
        return f"  {what}  p50 {self.p50_ms:8.1f} ms  p99 {p99_ms:8.1f} ms {interval}{ratio}"


def row(route: str, clients: int, took_s: list[float], within_s: float) -> Row:
    """The row of so many answers."""
    took_ms = [1000 * one for one in took_s]
    return Row(route, clients, len(took_s) / within_s, statistics.median(took_ms), p99(took_ms))


async def health(client: Client, _who: str, _turn: int) -> None:
    """What costs nothing but HTTP."""
    assert (await client.get("/health")).status == 200


async def submit(client: Client, who: str, turn: int) -> None:
    """One ranked submission, in the log when it is answered."""
    source = f"TURN = '{who} {turn} {time.time_ns()}'\n{SOURCE}".encode()
    answer = await client.submit(who, source, problem=PROBLEM, gpu=GPU)
    assert answer.status == 202, answer


def polls(number: int) -> Ask:
    """One look at a submission that is over, by its owner."""

    async def poll(client: Client, _who: str, _turn: int) -> None:
        answer = await client.get(f"/v1/submissions/{number}", "ada")
        assert answer.status == 200, answer

    return poll


async def measured(url: str, route: str, ask: Ask, clients: int, for_s: float) -> Row:
    """So many clients, each asking again and again for a while, and at least twice."""
    took_s: list[float] = []
    until = time.perf_counter() + for_s

    async def one(who: str) -> None:
        async with Client(url) as client:
            turn = 0
            while (began := time.perf_counter()) < until or turn < 2:
                await ask(client, who, turn)
                took_s.append(time.perf_counter() - began)
                turn += 1

    began = time.perf_counter()
    await asyncio.gather(*(one(f"p{index}") for index in range(clients)))
    return row(route, clients, took_s, time.perf_counter() - began)


async def followed(url: str, clients: int) -> Row:
    """So many submissions at once, each followed live: how old each event is when it is heard."""
    late_s: list[float] = []

    async def one(who: str) -> None:
        async with Client(url) as client:
            source = f"TURN = '{who} {time.time_ns()}'\n{SOURCE}".encode()
            answer = await client.submit(who, source, problem=PROBLEM, gpu=GPU)
        number = answer.json()["submissions"][0]["number"]
        async with asyncio.timeout(END_S_MAX):
            late_s.extend(await _late(url, f"/v1/submissions/{number}/events", who))

    began = time.perf_counter()
    await asyncio.gather(*(one(f"p{index}") for index in range(clients)))
    return row("stream", clients, late_s, time.perf_counter() - began)


async def _late(url: str, path: str, who: str) -> list[float]:
    """How many seconds after it happened each event of a stream was heard."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nWarpboard-Participant: {who}\r\n\r\n"
    writer.write(head.encode())
    late_s, name = [], ""
    while name != "end":
        line = (await reader.readline()).decode()
        assert line, "the stream broke off"
        field, _, value = line.strip().partition(": ")
        name = value if field == "event" else name
        said = json.loads(value) if field == "data" else {}
        if "at" in said and "type" in said:
            at = datetime.fromisoformat(said["at"])
            late_s.append((datetime.now(UTC) - at).total_seconds())
    writer.close()
    return late_s


async def all_over(url: str, numbers: Iterable[int]) -> None:
    """Wait until submissions are over."""
    async with asyncio.timeout(END_S_MAX), Client(url) as client:
        for number in numbers:
            seen = {"is_over": False, "version": 0}
            while not seen["is_over"]:
                held = f"/v1/submissions/{number}?wait_s=5&after={seen['version']}"
                seen = (await client.get(held, "ada")).json()


async def measure(url: str, for_s: float, numbers: Sequence[int]) -> list[Figure]:
    """Print a row for each route and number of clients."""
    figures = []
    async with Client(url) as client:
        answer = await client.submit("ada", SOURCE.encode(), problem=PROBLEM, gpu=GPU)
        number = int(answer.json()["submissions"][0]["number"])
    await all_over(url, [number])
    for clients in numbers:
        bare = await measured(url, "health", health, clients, for_s)
        print(bare.told())
        poll = await measured(url, "poll", polls(number), clients, for_s)
        print(poll.told(bare))
        stream = await followed(url, clients)
        print(stream.told())
        sent = await measured(url, "submit", submit, clients, for_s)
        print(sent.told(bare))
        figures += [one for row in (poll, stream, sent) for one in _figures(row, bare)]
        await asyncio.sleep(REST_S if clients != numbers[-1] else 0)
    return figures


def _figures(row: Row, bare: Row) -> list[Figure]:
    who = f"{row.route}, {row.clients} clients"
    if row.route == "stream":
        p99_ms = row.p99_ms
        figure = Figure(
            name=f"{who}: p99", measured=p99_ms.value, unit="ms", interval=p99_ms.interval
        )
        return [figure]
    return [Figure(name=f"{who}: cost over GET /health", measured=bare.per_s / row.per_s)]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two seconds a row")
    parser.add_argument("--smoke", action="store_true", help="few clients, a moment a row")
    told = parser.parse_args()
    for_s = SMOKE_S if told.smoke else QUICK_S if told.quick else LONG_S
    numbers = CLIENTS_SMOKE if told.smoke else CLIENTS
    with running_platform(AGENTS) as platform:
        print(f"{load()}; {AGENTS} no-op agents; {for_s:g} s a row")
        figures = asyncio.run(measure(platform.url, for_s, numbers))
        print(load())
    report(figures)


if __name__ == "__main__":
    main()
