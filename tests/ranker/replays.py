"""Folds read models again beside a test's own, as `ranker replay` does."""

from ranker.postgres import PROJECTION, SCHEMA, ReadModels
from ranker.replay.postgres import open_schemas
from ranker.replay.runner import ReplayInput, ReplayResult, replay_schema
from ranker.service.decisions import Metrics
from ranker.service.progress import ProjectionProgress
from ranker.service.projection import project
from shared.event_log import EventSource
from shared.postgres import connect, migrate


async def fold(source: EventSource, dsn: str, schema: str, until: int) -> None:
    """Fold a source into read models, up to a sequence."""
    async with await connect(dsn, schema) as connection:
        models = ReadModels(connection)
        async for _ in project(source, models, ProjectionProgress(), Metrics(), until=until):
            pass


def filling(dsn: str, source: EventSource) -> ReplayInput:
    """How a fresh schema gets its read models."""

    async def fill(schema: str, until: int) -> None:
        await fold(source, dsn, schema, until)

    return ReplayInput(lambda fresh: migrate(dsn, "ranker", fresh), fill, source.last)


async def replayed(
    dsn: str, source: EventSource, schema: str = SCHEMA, *, switch: bool = False
) -> ReplayResult:
    """Replay and compare the live read models with fresh ones, row by row."""
    async with open_schemas(dsn, schema, PROJECTION) as schemas:
        return await replay_schema(schemas, filling(dsn, source), switch=switch)
