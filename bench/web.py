"""What the pages of the web site cost, with 1 k and 1 M eligible runs behind them.

`python -m bench.web [--quick | --smoke]`. The rows are those of `bench.query`. 100 readers at once
open each page again and again, each on a connection of its own. A slow machine answers some of them
with 503; then the page is opened again, and its time goes on. The goal is flat: at most twice the
p99 for a thousand times as many runs. A leaderboard is also opened at a new address each time, at
which nothing is kept: page and JSON. Beside the times stand the weight of each page, with its
style sheet and scripts, uncompressed, and the statements of a leaderboard's page.
"""

import argparse
import asyncio
import re
from collections.abc import Mapping
from typing import NamedTuple

from bench.api import Ask, Row, measured
from bench.figures import Figure, at_most, report
from bench.leaderboard_servers import START_S_MAX, leaderboard_servers
from bench.noop_platform import load
from bench.pipeline_client import Client
from bench.query_reads import GPU, PROBLEM, SUBMISSION, CountingReads
from ingest.ranker_http import RankerClient
from ingest.site.leaderboards import LeaderboardAddress, read_leaderboard
from ingest.site.reads import PageReads
from ranker.postgres import SCHEMA
from shared.postgres import create_pool
from shared.reader import ANONYMOUS_READER
from tests.support.waits import eventually

LONG = (1_000, 1_000_000)
QUICK = (1_000, 100_000)
# What a page weighs is the same for any number of runs.
SMOKE = (10_000,)
READERS, READERS_SMOKE = 100, 1
UNAVAILABLE, TRIES_MAX = 503, 20
FOR_S, FOR_S_SMOKE = 8.0, 0.1
FLAT_MAX, WEIGHT_KB_MAX, STATEMENTS_MAX = 2.0, 200.0, 3
BOARD = f"/leaderboards/{PROBLEM}/{GPU}"
# In a path, what makes an address of its own of each turn of each client.
TURN = "TURN"
PAGES = {
    "front page": "/",
    "leaderboard": BOARD,
    "cases": f"{BOARD}/cases",
    "feed": f"{BOARD}/feed.atom",
    "submission": f"/submissions/{SUBMISSION}",
    "JSON": f"/v1{BOARD}?limit=50",
    "leaderboard, not kept": f"{BOARD}?turn={TURN}",
    "JSON, not kept": f"/v1{BOARD}?limit=50&turn={TURN}",
}
# What is kept as bytes, and what is not.
KEPT = {"leaderboard": "leaderboard, not kept", "JSON": "JSON, not kept"}
LOADED = re.compile(rb'<(?:script src|link rel="stylesheet" href)="([^"]+)"')


class Measurement(NamedTuple):
    """What one number of runs makes of the pages."""

    rows: Mapping[str, Row]
    weights_kb: Mapping[str, float]
    statements: int


def open_page(path: str) -> Ask:
    """Open a page without what it loads."""

    async def ask(client: Client, who: str, turn: int) -> None:
        address = path.replace(TURN, f"{who}.{turn}")
        answer = await client.get(address)
        for _ in range(TRIES_MAX):
            if answer.status != UNAVAILABLE:
                break
            answer = await client.get(address)
        assert answer.status == 200, answer

    return ask


async def weigh(url: str, path: str) -> float:
    """The kilobytes of a page and of what it loads."""
    async with Client(url) as client:
        page = (await client.get(path)).body
        loaded = [await client.get(name.decode()) for name in LOADED.findall(page)]
    return (len(page) + sum(len(answer.body) for answer in loaded)) / 1000


async def count_statements(dsn: str) -> int:
    """The statements of the page of a leaderboard."""
    async with create_pool(dsn, 1, 4, SCHEMA) as connections:
        reads = CountingReads(connections)
        async with reads.client() as client:
            page_reads = PageReads(RankerClient(client), ANONYMOUS_READER)
            await read_leaderboard(page_reads, LeaderboardAddress(PROBLEM, GPU))
        return reads.statements


async def read_pages(
    url: str, readers: int, for_s: float
) -> tuple[dict[str, Row], dict[str, float]]:
    """Open each page again and again."""
    rows, weights_kb = {}, {}
    for name, path in PAGES.items():
        weights_kb[name] = await weigh(url, path)
        await measured(url, name, open_page(path), readers, for_s / 10)
        rows[name] = await measured(url, name, open_page(path), readers, for_s)
    return rows, weights_kb


def measure(runs: int, readers: int, for_s: float) -> Measurement:
    """Open each page, with so many runs."""
    with leaderboard_servers(runs) as ground:
        url = ground.url("ingest")

        async def answers() -> bool:
            try:
                async with Client(url) as client:
                    return (await client.get(BOARD)).status == 200
            except OSError:
                return False

        statements = asyncio.run(count_statements(ground.postgres.dsn))
        with ground.service("ranker"), ground.service("ingest"):
            asyncio.run(eventually(answers, START_S_MAX))
            rows, weights_kb = asyncio.run(read_pages(url, readers, for_s))
    return Measurement(rows, weights_kb, statements)


def make_figures(first: Measurement, last: Measurement, runs: tuple[int, ...]) -> list[Figure]:
    """How much more the most runs cost than the fewest, and what no machine changes."""
    figures = []
    for name, row in last.rows.items():
        ratio = Figure(
            name=f"{name}, {runs[-1]} runs over {runs[0]}: p99",
            measured=row.p99_ms.value / first.rows[name].p99_ms.value,
            interval=row.p99_ms.interval.over(first.rows[name].p99_ms.interval),
            goal=at_most(FLAT_MAX),
        )
        figures += [
            Figure(
                name=f"{name}, {runs[-1]} runs: p99",
                measured=row.p99_ms.value,
                unit="ms",
                interval=row.p99_ms.interval,
            ),
            *([ratio] if len(runs) > 1 else []),
            Figure(
                name=f"{name}: weight",
                measured=last.weights_kb[name],
                unit="kB",
                goal=at_most(WEIGHT_KB_MAX),
                is_held=True,
            ),
        ]
    for kept, anew in KEPT.items():
        per_s = last.rows[kept].per_s
        figures += [
            Figure(name=f"{kept}: per second", measured=per_s, unit="/s"),
            Figure(
                name=f"{kept}: per second, over those not kept",
                measured=per_s / last.rows[anew].per_s,
            ),
        ]
    statements = Figure(
        name="leaderboard: statements",
        measured=last.statements,
        goal=at_most(STATEMENTS_MAX),
        is_held=True,
    )
    return [*figures, statements]


def main() -> None:
    """Measure each number of runs on servers of its own."""
    parser = argparse.ArgumentParser(prog="python -m bench.web", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="not the million")
    parser.add_argument("--smoke", action="store_true", help="few runs, few readers")
    options = parser.parse_args()
    sizes = SMOKE if options.smoke else QUICK if options.quick else LONG
    readers = READERS_SMOKE if options.smoke else READERS
    measurements = []
    for runs in sizes:
        measurement = measure(runs, readers, FOR_S_SMOKE if options.smoke else FOR_S)
        measurements.append(measurement)
        print(f"{runs} runs, {readers} readers ({load()})")
        for row in measurement.rows.values():
            print(row.told())
    report(make_figures(measurements[0], measurements[-1], sizes))


if __name__ == "__main__":
    main()
