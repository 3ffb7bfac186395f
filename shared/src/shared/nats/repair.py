"""What a scrub reads of a damaged log, and what a repair does to it; nobody else may write then."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.event_log import Recorded
from shared.nats.inbox import beginning
from shared.nats.monitor import read_known_seq
from shared.nats.pull import create_consumer
from shared.nats.raw import append_raw
from shared.nats.requests import Denied, ask, patiently
from shared.nats.scan import scan
from shared.nats.streams import Settings, ensure, state
from shared.subjects import STREAM, WATERMARKS, aggregate
from shared.wire import read

NO_STREAM = 10059
# A page of the server has 256 consumers.
PAGES_MAX = 40
# What the server tells of a consumer, and does not take back.
FIXED = ("deliver_policy", "opt_start_seq", "opt_start_time", "metadata", "num_replicas")


class Place(msgspec.Struct):
    """A durable reader of the log: its settings, and the last event that it is done with."""

    settings: Settings
    done_seq: int


class _Floor(msgspec.Struct):
    stream_seq: int


class _Consumer(msgspec.Struct):
    config: Settings
    ack_floor: _Floor


class _Page(msgspec.Struct):
    total: int
    limit: int
    consumers: list[_Consumer] | None = None


class _Config(msgspec.Struct):
    num_replicas: int = 1


class _Info(msgspec.Struct):
    config: _Config


class LogRepair:
    """The log as it is, read around its damage, and replaced by an empty one. Errors: Failed."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def last_seq(self) -> int:
        """The last sequence that the log has."""
        return (await patiently(self._nc, partial(state, self._nc, STREAM))).last_seq

    async def known_seq(self) -> int:
        """The last sequence that any service has seen."""
        return await patiently(self._nc, partial(read_known_seq, self._nc))

    async def events(self, last_seq: int) -> AsyncIterator[Recorded]:
        """Every event up to a sequence that can be read."""
        async for one in scan(self._nc, last_seq):
            yield Recorded(one.seq, read(aggregate(one.subject), one.seq, one.data), one.data)

    async def read_places(self) -> Sequence[Place]:
        """Every durable reader of the log, and where it stands."""
        found: list[Place] = []
        offset = 0
        for _ in range(PAGES_MAX):
            what = partial(ask, self._nc, f"CONSUMER.LIST.{STREAM}", {"offset": offset})
            page = msgspec.json.decode(await patiently(self._nc, what), type=_Page)
            found += [
                Place(one.config, one.ack_floor.stream_seq)
                for one in page.consumers or []
                if one.config.get("durable_name")
            ]
            offset += page.limit
            if offset >= page.total:
                break
        return found

    async def restore_places(self, places: Sequence[Place]) -> None:
        """Let every durable reader go on where it stood; harmless to repeat."""
        known = {place.settings["durable_name"] for place in await self.read_places()}
        for place in places:
            if place.settings["durable_name"] in known:
                continue
            settings = {key: value for key, value in place.settings.items() if key not in FIXED}
            settings |= beginning(place.done_seq + 1)
            await patiently(self._nc, partial(create_consumer, self._nc, STREAM, settings))

    async def replace(self) -> None:
        """Delete the log, with everything in it, and make it anew."""
        replicas = 1

        async def delete() -> None:
            nonlocal replicas
            try:
                answer = await ask(self._nc, f"STREAM.INFO.{STREAM}")
                replicas = msgspec.json.decode(answer, type=_Info).config.num_replicas
                await ask(self._nc, f"STREAM.DELETE.{STREAM}")
            except Denied as denied:
                if denied.code != NO_STREAM:
                    raise

        await patiently(self._nc, delete)
        await ensure(self._nc, replicas)

    async def append(self, events: Sequence[tuple[str, str, bytes]], after: int) -> None:
        """Store (subject, id, body) at the sequences right after one, all or none."""
        await append_raw(self._nc, events, after)

    async def forget_known_seq(self) -> None:
        """Let the log be shorter than it was, where a repair had to do without its end."""
        await patiently(self._nc, lambda: ask(self._nc, f"STREAM.PURGE.{WATERMARKS}"))
