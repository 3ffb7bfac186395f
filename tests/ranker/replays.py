"""Folds read models again beside a test's own, as `ranker replay` does."""

from functools import partial

from ranker.postgres import PROJECTION, SCHEMA
from ranker.replay.postgres import open_schemas
from ranker.replay.runner import ReplayInput, ReplayResult, fill_models, replay_schema
from shared.event_log import EventSource
from shared.postgres import migrate


def filling(dsn: str, source: EventSource) -> ReplayInput:
    """How a fresh schema gets its read models."""
    fill = partial(fill_models, source, dsn)
    return ReplayInput(lambda fresh: migrate(dsn, "ranker", fresh), fill, source.last)


async def replayed(
    dsn: str, source: EventSource, schema: str = SCHEMA, *, switch: bool = False
) -> ReplayResult:
    """Replay and compare the live read models with fresh ones, row by row."""
    async with open_schemas(dsn, schema, PROJECTION) as schemas:
        return await replay_schema(schemas, filling(dsn, source), switch=switch)
