"""Servers with a leaderboard of so many eligible runs, which several benchmarks read."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import replay_log
from bench.query_reads import fill
from bench.replay_place import Ground
from ranker.main import MIGRATED
from ranker.postgres import SCHEMA, open_read_models
from ranker.service.decisions import Metrics
from ranker.service.progress import ProjectionProgress
from ranker.service.projection import project
from shared.bus_keys.login import BusLogin
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.postgres import migrate

# The folder in which `python -m bench` keeps the servers' data from one benchmark to the next:
# a million runs take longer to write than to measure.
KEPT = "WARPBOARD_BENCH_LEADERBOARDS"
START_S_MAX = 60.0
COMPLETE = "complete"


@contextmanager
def leaderboard_servers(runs: int) -> Iterator[Ground]:
    """Start both servers with so many runs; they are written unless a benchmark before did."""
    with ExitStack() as stack:
        home = os.environ.get(KEPT) or stack.enter_context(tempfile.TemporaryDirectory())
        Path(home).chmod(0o755)  # Postgres runs as nobody and must walk here.
        folder = Path(home, str(runs))
        is_complete = (folder / COMPLETE).exists()
        if not is_complete:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        ground = Ground(folder)
        stack.callback(ground.stop)
        if not is_complete:
            began = time.monotonic()
            _write(ground, runs)
            print(f"{runs} runs written in {time.monotonic() - began:.1f} s", flush=True)
            (folder / COMPLETE).touch()
        yield ground


def _write(ground: Ground, runs: int) -> None:
    """Publish the problem, fold that as a ranker would, and fill its tables."""
    dsn = ground.postgres.dsn
    for package, schema in MIGRATED:
        migrate(dsn, package, schema)
    asyncio.run(_publish(ground.nats.login(), dsn))
    asyncio.run(fill(dsn, runs))


async def _publish(login: BusLogin, dsn: str) -> None:
    """Write the problems into the log, and fold them."""
    nc = await connect(login, "bench")
    await ensure_streams(nc)
    log, progress = NatsLog(nc), ProjectionProgress()
    last = await replay_log.write(log, 2)
    async with open_read_models(dsn, SCHEMA) as models:
        async for _ in project(log, models, progress, Metrics(), until=last):
            pass
    await nc.close()
