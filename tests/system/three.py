"""Clients of three servers of NATS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats.aio.client import Client

from shared.nats.connection import connect
from tests.support.cluster import NatsCluster

REPLICAS = 3


@asynccontextmanager
async def client(cluster: NatsCluster, name: str) -> AsyncIterator[Client]:
    """A connection to whichever server is there."""
    nc = await connect(cluster.url, name)
    try:
        yield nc
    finally:
        await nc.close()
