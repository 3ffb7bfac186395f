"""The two loops of webhooks, which begin anew whenever Postgres is back."""

import asyncio
import logging
from dataclasses import dataclass

from ranker.hooks.metrics import HookMetrics
from ranker.hooks.postgres import HookRows
from ranker.hooks.posting import Post
from ranker.hooks.sending import Sending
from ranker.hooks.watching import Log, Watching
from ranker.service import News, Reads
from shared.errors import Failed
from shared.lifecycle import until_first
from shared.outages import Outage
from shared.postgres import Fenced, pool

log = logging.getLogger(__name__)

POOL_MAX = 3
# Another instance tells: this one waits for it to go.
STANDBY_S = 5.0


@dataclass(frozen=True)
class Seen:
    """What is looked at: the log, the read models in a schema, and how far those are."""

    log: Log
    reads: Reads
    news: News
    dsn: str
    schema: str


async def webhooks(seen: Seen, *, is_local: bool) -> None:
    """Tell webhooks of what happens, for ever. Errors: Gap stops the process."""
    metrics, post, outage = HookMetrics(), Post(is_local=is_local), Outage("webhooks")
    while True:
        try:
            async with pool(seen.dsn, 1, POOL_MAX, seen.schema) as connections:
                rows = HookRows(connections)
                watching = Watching(seen.log, rows, seen.reads, seen.news)
                await watching.know()
                outage.end()
                sending = Sending(rows, watching.standing, post.send, metrics)
                await until_first(watching.run(), sending.run())
        except Failed as failed:
            await outage.wait(failed)
        except Fenced as fenced:
            log.warning("webhooks stand by: %s", fenced)
            await asyncio.sleep(STANDBY_S)
