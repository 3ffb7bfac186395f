"""Everything we send to NATS: the adapters of the log, the blobs and the bus."""

import sys

# nats-py imports aiohttp for WebSockets, which we do not use, wherever it is installed. That took
# 0.13 s of processor time at the start of each process, a third of scheduler's (2026-11).
if "aiohttp" not in sys.modules:
    sys.modules["aiohttp"] = None  # type: ignore[assignment]  # as if it were not installed
    import nats.aio.client  # noqa: F401  (every module here imports it)

    del sys.modules["aiohttp"]
