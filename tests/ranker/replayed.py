"""Read models folded anew beside a test's own, as `ranker replay` does it."""

from ranker.__main__ import SCHEMA
from ranker.postgres import PROJECTION, ReadModels
from ranker.replay.postgres import schemas
from ranker.replay.replaying import Filling, Replayed, replay
from ranker.service import News, project
from shared.event_log import EventLog
from shared.postgres import connect, migrate
from tests.support.lives import NoMetrics


async def fold(source: EventLog, dsn: str, schema: str, until: int) -> None:
    """Fold a source into read models, up to a sequence."""
    async with await connect(dsn, schema) as connection:
        models = ReadModels(connection)
        async for _ in project(source, models, News(), NoMetrics(), until=until):
            pass


def filling(dsn: str, source: EventLog) -> Filling:
    """How a fresh schema gets its read models."""

    async def fill(schema: str, until: int) -> None:
        await fold(source, dsn, schema, until)

    return Filling(lambda fresh: migrate(dsn, "ranker", fresh), fill, source.last)


async def replayed(
    dsn: str, source: EventLog, schema: str = SCHEMA, *, switch: bool = False
) -> Replayed:
    """How the live read models compare, row by row, with fresh ones."""
    async with schemas(dsn, schema, PROJECTION) as both:
        return await replay(both, filling(dsn, source), switch=switch)
