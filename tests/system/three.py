"""Clients of three servers of NATS."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import nats.errors
from nats.aio.client import Client

from shared.nats.connection import connect
from shared.subjects import STREAM
from tests.support.cluster import NatsCluster

REPLICAS = 3


@asynccontextmanager
async def client(cluster: NatsCluster, name: str) -> AsyncIterator[Client]:
    """A connection to whichever server is there."""
    nc = await connect(cluster.login(), name)
    try:
        yield nc
    finally:
        await nc.close()


async def leader(nc: Client) -> str | None:
    """The server that leads the log, if one is known and all others keep up with it."""
    with suppress(TimeoutError, KeyError, nats.errors.Error):
        answer = json.loads((await nc.request(f"$JS.API.STREAM.INFO.{STREAM}", b"", 1)).data)
        peers = answer["cluster"]["replicas"]
        is_whole = len(peers) == REPLICAS - 1 and all(peer["current"] for peer in peers)
        return str(answer["cluster"]["leader"]) if is_whole else None
    return None
