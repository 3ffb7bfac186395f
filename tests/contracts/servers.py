"""Restart a server, and list its consumers."""

import msgspec
from nats.aio.client import Client

from shared.servers.nats import NatsServer


def restart(server: NatsServer) -> None:
    """Kill a server, and start it again."""
    server.kill()
    server.start()


async def consumers(nc: Client, stream: str) -> list[str]:
    """Return the names of a stream's consumers."""
    answer = await nc.request(f"$JS.API.CONSUMER.NAMES.{stream}", b"", 2)
    names: list[str] = msgspec.json.decode(answer.data)["consumers"]
    return names
