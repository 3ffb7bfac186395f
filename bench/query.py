"""What a leaderboard takes to be read, with 1 k, 100 k and 1 M eligible runs behind it.

`python -m bench.query [--quick | --smoke]`. The rows are made in Postgres itself, ten runs a
participant, and read over HTTP from a real ranker: the first page, a submission's page, one reader
at a time. The goal is flat: less than twice as long for a thousand times as many runs. Beside the
times stand the statements and buffers of each read, which no machine changes.
"""

import argparse
import asyncio
import http.client
import statistics
import time
from typing import NamedTuple

from bench.figures import Figure, at_most, report
from bench.intervals import Percentile, p99
from bench.leaderboard_servers import START_S_MAX, leaderboard_servers
from bench.noop_platform import load
from bench.query_reads import PATHS, Cost, count
from bench.replay_place import ask
from tests.support.waits import eventually

# Buffers are compared with the size before the last, which is large enough for the indexes.
LONG = (1_000, 100_000, 1_000_000)
QUICK, SMOKE = (1_000, 10_000, 100_000), (10_000, 40_000)
READS, READS_SMOKE = 1000, 20
# So much more, at most, may the largest leaderboard cost than the smallest.
FLAT_MAX = 2.0
STATEMENTS_MAX = {"first page": 3, "a submission": 5}


class Row(NamedTuple):
    """What one number of runs makes of one read."""

    runs: int
    read: str
    p50_ms: float
    p99_ms: Percentile
    cost: Cost

    def text(self, first: "Row") -> str:
        """The row as it is printed, beside that of the fewest runs."""
        return (
            f"{self.runs:9} runs, {self.read}: p50 {self.p50_ms:.2f} ms, "
            f"p99 {self.p99_ms.value:.2f} ms {self.p99_ms.interval}, "
            f"{self.cost.statements} statements, {self.cost.buffers} buffers; "
            f"{self.p50_ms / first.p50_ms:.2f} times the p50, "
            f"{self.p99_ms.value / first.p99_ms.value:.2f} the p99, "
            f"{self.cost.buffers / first.cost.buffers:.2f} the buffers of {first.runs} runs  "
            f"({load()})"
        )


def _read(port: int, path: str, reads: int) -> list[float]:
    """The milliseconds of each read on one connection, after a twentieth as many."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    took = []
    for number in range(-(reads // 20), reads):
        began = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        if number >= 0:
            took.append(1e3 * (time.perf_counter() - began))
    connection.close()
    return took


def measure(runs: int, reads: int) -> list[Row]:
    """Measure each read, with so many runs."""
    rows = []
    with leaderboard_servers(runs) as ground:

        async def is_up() -> bool:
            url = ground.url("ranker") + PATHS["first page"]
            return await asyncio.to_thread(ask, url) is not None

        costs = asyncio.run(count(ground.postgres.dsn))
        with ground.service("ranker"):
            asyncio.run(eventually(is_up, START_S_MAX))
            for read, path in PATHS.items():
                took = _read(ground.place.ports["ranker"], path, reads)
                rows.append(Row(runs, read, statistics.median(took), p99(took), costs[read]))
    return rows


def figures(rows: list[Row]) -> list[Figure]:
    """How much more the most runs cost than the fewest."""
    found = []
    for read in PATHS:
        some = [row for row in rows if row.read == read]
        first, last = some[0], some[-1]
        name = f"{read}, {last.runs} runs over {first.runs}"
        goal = at_most(FLAT_MAX)
        # Of 1000 runs whole tables are a few pages, which Postgres then reads instead of an index.
        counted = some[-2]
        buffers = last.cost.buffers / counted.cost.buffers
        found += [
            Figure(name=f"{read}, {last.runs} runs: p50", measured=last.p50_ms, unit="ms"),
            Figure(name=f"{name}: p50", measured=last.p50_ms / first.p50_ms, goal=goal),
            Figure(
                name=f"{name}: p99",
                measured=last.p99_ms.value / first.p99_ms.value,
                interval=last.p99_ms.interval.over(first.p99_ms.interval),
                goal=goal,
            ),
            Figure(
                name=f"{read}, {last.runs} runs over {counted.runs}: buffers",
                measured=buffers,
                goal=goal,
                is_held=True,
            ),
            Figure(
                name=f"{read}: statements per request",
                measured=last.cost.statements,
                goal=at_most(STATEMENTS_MAX[read]),
                is_held=True,
            ),
        ]
    return found


def main() -> None:
    """Measure each number of runs on servers of its own."""
    parser = argparse.ArgumentParser(prog="python -m bench.query", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="not the million")
    parser.add_argument("--smoke", action="store_true", help="few runs, few reads")
    told = parser.parse_args()
    sizes = SMOKE if told.smoke else QUICK if told.quick else LONG
    rows: list[Row] = []
    for runs in sizes:
        for row in measure(runs, READS_SMOKE if told.smoke else READS):
            rows.append(row)
            first = next(one for one in rows if one.read == row.read)
            print(row.text(first), flush=True)
    report(figures(rows))


if __name__ == "__main__":
    main()
