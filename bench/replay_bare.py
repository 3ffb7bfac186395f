"""The bare read limit: nats-py's ordered consumer with a callback that counts, nothing else.

`python -m bench.replay_bare URL-FILE LAST` prints the seconds from the subscription to event LAST.
"""

import asyncio
import sys
import time
from pathlib import Path

from nats.aio.client import Client
from nats.aio.msg import Msg

READ_S_MAX = 300.0


async def read(url: str, last: int) -> float:
    """The seconds that it takes to be handed every event."""
    nc = Client()
    await nc.connect(url)
    seen, done = 0, asyncio.Event()

    async def on(_message: Msg) -> None:
        nonlocal seen
        seen += 1
        if seen == last:
            done.set()

    began = time.perf_counter()
    stream = nc.jetstream()
    await stream.subscribe(
        "events.>", ordered_consumer=True, cb=on, pending_msgs_limit=-1, pending_bytes_limit=-1
    )
    async with asyncio.timeout(READ_S_MAX):
        await done.wait()
    took_s = time.perf_counter() - began
    await nc.close()
    return took_s


def main() -> None:
    """Read once."""
    url = Path(sys.argv[1]).read_text()
    print(asyncio.run(read(url, int(sys.argv[2]))))


if __name__ == "__main__":
    main()
