"""Wires ingest together and runs it until SIGTERM."""

import asyncio
import sys

from ingest import http, ranker_http
from ingest.postgres import PostgresPeople
from ingest.ranker_http import Ranker
from ingest.service import ingest
from ingest.service.ports import Ports
from ingest.settings import Settings, load
from shared import lifecycle
from shared.http import serve
from shared.lifecycle import Life
from shared.metrics import LogMetrics, Metered
from shared.nats.blobs import NatsBlobs
from shared.nats.connection import connect
from shared.nats.deadletters import NatsDeadLetters
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.postgres import migrate, pool

POOL_MAX = 8


async def _run(settings: Settings, life: Life) -> None:
    await asyncio.to_thread(migrate, settings.postgres_dsn, "shared", "accounts")
    nc = await connect(settings.nats_url, "ingest", closed=life.stopping.set)
    await ensure(nc, settings.replicas)
    async with (
        pool(settings.postgres_dsn, 1, POOL_MAX) as connections,
        ranker_http.client(settings.ranker_url) as client,
    ):
        people, ranker = PostgresPeople(connections), Ranker(client)

        async def is_well() -> str:
            if not nc.is_connected:
                return "the log does not answer"
            return "" if await people.is_well() else "the database does not answer"

        log = NatsLog(nc)
        LogMetrics("ingest", log)
        ports = Ports(log, NatsBlobs(nc), people, ranker, NatsDeadLetters(nc))
        app = http.application(ingest(ports), ranker, is_well, settings.operator_token)
        host, port = settings.listen
        await serve(Metered(app, "ingest"), host, port, life.stopping)
    await nc.close()


if __name__ == "__main__":
    sys.exit(lifecycle.main("ingest", load, _run))
