"""The bare read limit: nats-py's ordered consumer with a callback that counts, nothing else.

`python -m bench.replay_bare URL CREDENTIALS LAST` reads up to event LAST; its own cost
is the figure.
"""

import asyncio
import sys

from nats.aio.client import Client
from nats.aio.msg import Msg

READ_S_MAX = 300.0


async def read(url: str, credentials: str, last: int) -> None:
    """Be handed every event."""
    nc = Client()
    await nc.connect(url, user_credentials=credentials)
    seen, done = 0, asyncio.Event()

    async def on(_message: Msg) -> None:
        nonlocal seen
        seen += 1
        if seen == last:
            done.set()

    stream = nc.jetstream()
    await stream.subscribe(
        "events.>", ordered_consumer=True, cb=on, pending_msgs_limit=-1, pending_bytes_limit=-1
    )
    async with asyncio.timeout(READ_S_MAX):
        await done.wait()
    await nc.close()


def main() -> None:
    """Read once."""
    url, credentials, last = sys.argv[1:]
    asyncio.run(read(url, credentials, int(last)))


if __name__ == "__main__":
    main()
