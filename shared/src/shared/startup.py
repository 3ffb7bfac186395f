"""What a service does before it imports its modules. This module must import nothing slow."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause garbage collection while a service's modules are imported, and never search them later.

    ingest's modules create 120,000 objects, all of which stay. Collections took a fifth of the
    import, and each later one 0.16 s (Python 3.11, 2026-11).
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
