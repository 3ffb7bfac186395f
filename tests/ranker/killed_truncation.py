"""A process that truncates a stream and kills itself at one of its writes.

`python -m tests.ranker.killed_truncation CREDENTIALS NATS_URL POSTGRES_DSN SEAL_KEY WRITE WHEN`:
`WRITE` counts the announcements and purges from 1; `WHEN` is `before` or `after` the server has it.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from nats.aio.msg import Msg

from ranker.archive.postgres import open_archive
from ranker.archive.segments import Segmenter
from shared.bus_keys.login import BusLogin
from shared.nats.connection import connect
from shared.nats.segmented_log import NatsSegmentedLog
from shared.nats.truncation import TRUNCATION
from shared.signing import load_key
from shared.subjects import STREAM, subject

WRITES = (subject(TRUNCATION), f"$JS.API.STREAM.PURGE.{STREAM}")


async def truncate(login: BusLogin, dsn: str, key: Path, kill_at: int, when: str) -> None:
    """Truncate what is over, and kill this process at one of the writes."""
    nc, count = await connect(login, "truncation"), 0
    request = nc.request

    async def request_or_die(name: str, *arguments: Any, **options: Any) -> Msg:
        nonlocal count
        count += name in WRITES
        is_last = name in WRITES and count == kill_at
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await request(name, *arguments, **options)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(nc, "request", request_or_die)  # noqa: B010
    async with open_archive(dsn) as archive:
        segmenter = Segmenter(NatsSegmentedLog(nc), archive, load_key(key))
        await segmenter.truncate(0.0, pause_s=0.0)
    await nc.close()


if __name__ == "__main__":
    credentials, url, dsn, key, kill_at, when = sys.argv[1:]
    asyncio.run(truncate(BusLogin(url, credentials), dsn, Path(key), int(kill_at), when))
