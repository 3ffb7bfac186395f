"""What a leaderboard takes to be read, with 1 k, 100 k and 1 M eligible runs behind it.

`python -m bench.query [--quick]`. The rows are made in Postgres itself, ten runs a participant,
and read over HTTP from a real ranker: the first page, the whole answer, one reader at a
time. The goal is flat: less than twice as long for a thousand times as many runs.
"""

import argparse
import asyncio
import http.client
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psycopg

from bench import replay_log
from bench.noop_platform import load
from bench.replay_place import Ground, ask
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.testing import eventually

LONG, QUICK = (1_000, 100_000, 1_000_000), (1_000, 100_000)
WARM, ASKED = 50, 1000
START_S_MAX = 60.0
RUNS_A_PARTICIPANT = 10
SCHEMA = (
    "select schemaname from pg_tables where tablename = 'entry' and schemaname like 'rm_ranker%'"
)
PATHS = {
    "first page": f"/v1/leaderboards/{replay_log.PROBLEM}/{replay_log.GPU}",
    "a submission": "/v1/submissions/500",
}


class Row(NamedTuple):
    """What one number of runs makes of one read."""

    runs: int
    read: str
    p50_ms: float
    p99_ms: float


async def _publish(url: str) -> None:
    nc = await connect(url, "bench")
    await ensure(nc)
    await replay_log.write(NatsLog(nc), 2)
    await nc.close()


def _fill(dsn: str, runs: int) -> None:
    """Rows as the ranker would have folded them."""
    program = Path(__file__).with_suffix(".sql").read_text()
    with psycopg.connect(dsn) as connection:
        found = connection.execute(SCHEMA).fetchone()
        assert found is not None, "the ranker has made no tables"
        connection.execute(f"set search_path = {found[0]}".encode())
        values = {"runs": runs, "accounts": max(1, runs // RUNS_A_PARTICIPANT)}
        with psycopg.ClientCursor(connection) as cursor:
            cursor.execute(program.encode(), values)


def _ask(port: int, path: str) -> list[float]:
    """The milliseconds of each read on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    took = []
    for number in range(WARM + ASKED):
        began = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        if number >= WARM:
            took.append(1e3 * (time.perf_counter() - began))
    connection.close()
    return took


def measure(runs: int, folder: Path) -> list[Row]:
    """Each read, with so many runs."""
    ground = Ground(folder)

    async def is_up() -> bool:
        url = ground.url("ranker") + f"/v1/leaderboards/{replay_log.EMPTY}/{replay_log.GPU}"
        return await asyncio.to_thread(ask, url) is not None

    try:
        asyncio.run(_publish(ground.nats.url))
        with ground.service("ranker"):
            asyncio.run(eventually(is_up, START_S_MAX))
        _fill(ground.postgres.dsn, runs)
        rows = []
        with ground.service("ranker"):
            asyncio.run(eventually(is_up, START_S_MAX))
            for read, path in PATHS.items():
                took = sorted(_ask(ground.place.ports["ranker"], path))
                p99 = took[int(len(took) * 0.99)]
                rows.append(Row(runs, read, statistics.median(took), p99))
    finally:
        ground.stop()
    return rows


def main() -> None:
    """Measure each number of runs on servers of its own."""
    parser = argparse.ArgumentParser(prog="python -m bench.query", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="not the million")
    sizes = QUICK if parser.parse_args().quick else LONG
    first: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        for runs in sizes:
            folder = Path(home, str(runs))
            folder.mkdir()
            for row in measure(runs, folder):
                base = first.setdefault(row.read, row)
                print(
                    f"{row.runs:9} runs, {row.read}: p50 {row.p50_ms:.2f} ms, p99 "
                    f"{row.p99_ms:.2f} ms; {row.p50_ms / base.p50_ms:.2f} times the p50, "
                    f"{row.p99_ms / base.p99_ms:.2f} the p99 of {base.runs} runs  ({load()})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
