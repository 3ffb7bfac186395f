"""A ranked log on a server of its own, and its archive, for tests that damage one of them."""

from pathlib import Path
from typing import Any, NamedTuple

from nats.aio.client import Client

from ranker.archive.archiver import run_archiver
from ranker.archive.comparison import ScrubReport
from ranker.archive.postgres import open_archive
from ranker.export.repair import repair_log, scrub_log
from ranker.service.decisions import Metrics
from ranker.settings import Settings
from shared.event_log import RecordedEvent
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.feed import NatsFeed, decode_events
from shared.nats.repair import append_raw
from shared.nats.streams import ensure_streams, stream_state
from shared.servers.nats import NatsServer
from shared.settings import Listen
from shared.subjects import STREAM, subject
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_export import command, rank
from tests.support.lives import Life

NOWHERE = Listen("127.0.0.1", 0)


class ArchivedLog(NamedTuple):
    """A ranked and archived log, and the path of its repaired form."""

    server: NatsServer
    settings: Settings
    file: Path

    async def connect(self) -> Client:
        """Connect to the log's server."""
        return await connect(self.server.login(), "test")

    async def events(self) -> list[RecordedEvent]:
        """The whole log; fails if an event is missing."""
        nc = await self.connect()
        last_seq = (await stream_state(nc, STREAM)).last_seq
        feed, events_ = NatsFeed(nc, 0), list[RecordedEvent]()
        try:
            while len(events_) < last_seq:
                events_ += decode_events(await feed.raw(1000))
        finally:
            await nc.close()
        return events_

    async def run(self, *arguments: str) -> tuple[int, Any]:
        """Run a ranker command in a process; returns its exit code and output."""
        return await command(self.settings, *arguments)

    async def scrub(self) -> ScrubReport:
        """Compare the log with its archive, as the command does."""
        return await scrub_log(self.settings)

    async def repair(self, *, overwrite: bool = False, accept_loss: bool = False) -> dict[str, Any]:
        """Put back what the log lacks."""
        options = {"overwrite": overwrite, "accept_loss": accept_loss}
        return await repair_log(self.settings, self.file, "operator:op", **options)

    async def archive_now(self) -> None:
        """Rank and archive all of the log."""
        nc = await self.connect()
        await rank(NatsLog(nc), self.settings.postgres_dsn)
        await nc.close()

    async def archive_alone(self) -> None:
        """Archive events that cannot be ranked."""
        nc = await self.connect()
        log = NatsLog(nc)
        async with open_archive(self.settings.postgres_dsn) as archive:
            await run_archiver(log, archive, Metrics(), until=await log.last())
        await nc.close()


async def start_archived_log(
    own_nats: NatsServer, postgres_dsn: str, tmp_path: Path
) -> ArchivedLog:
    """Fill a log with two ranked submissions and a seal, and archive it."""
    audited = await AuditPlatform(tmp_path).found()
    await audited.live(Life("s1"))
    await audited.seal()
    await audited.live(Life("s2", account="grace", time_us=50.0))
    settings = Settings(
        nats_url=own_nats.url,
        nats_credentials=own_nats.login().credentials,
        postgres_dsn=postgres_dsn,
        listen=NOWHERE,
        ops_listen=NOWHERE,
        reader_key="k" * 16,
        seal_key=tmp_path / "seal.key",
    )
    nc = await connect(own_nats.login(), "test")
    await ensure_streams(nc)
    events = [
        (subject(event.envelope.aggregate), event.envelope.id, event.body)
        for event in audited.log.since(0)
    ]
    await append_raw(nc, events, 0)
    await nc.close()
    state = ArchivedLog(own_nats, settings, tmp_path / "repaired.gz")
    await state.archive_now()
    return state
