"""How many live streams and downloads may be open."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakValueDictionary

from ingest.identity.http.authenticator import Authenticator
from ingest.ports import ACCOUNT, ReadProxy
from shared.errors import Refused
from shared.lifecycle import STREAMS_MAX

# Of an account.
OWN_STREAMS_MAX = 100
DOWNLOADS_MAX, OWN_DOWNLOADS_MAX = 16, 2


class DownloadLimiter:
    """Limits downloads: a number at once, and few per account, or per address without one."""

    def __init__(self, reads: ReadProxy, per_address: int = OWN_DOWNLOADS_MAX) -> None:
        self.reads = reads
        self.per_address = per_address
        self._slots = asyncio.Semaphore(DOWNLOADS_MAX)
        self._slots_by_person: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def slot(self, person: str) -> AsyncIterator[None]:
        """Wait for a slot; the downloads of an account or address wait for each other first."""
        at_once = OWN_DOWNLOADS_MAX if ACCOUNT.match(person) else self.per_address
        own_slots = self._slots_by_person.setdefault(person, asyncio.Semaphore(at_once))
        async with own_slots, self._slots:
            yield


class StreamLimiter:
    """Limits open live streams, each of which needs connections and memory."""

    def __init__(
        self,
        reads: ReadProxy,
        auth: Authenticator,
        streams_max: int = STREAMS_MAX,
        per_address: int = OWN_STREAMS_MAX,
    ) -> None:
        self.reads = reads
        self.auth = auth
        self.streams_max = streams_max
        self.per_address = per_address
        self.open: Counter[str] = Counter()

    def check(self, person: str, *, is_free: bool = False) -> None:
        """Refuse one stream too many. Raises `Refused` (`too_many_streams`).

        `person` is an account, or the address of who is not logged in. Their limit does not apply
        to staff, nor where names are believed.
        """
        is_free = is_free or self.auth.config.are_names_believed
        if self.open.total() >= self.streams_max:
            message = f"{self.streams_max} streams are open here: try again in a moment"
            raise Refused("too_many_streams", message, None, 2.0)
        own_max = OWN_STREAMS_MAX if ACCOUNT.match(person) else self.per_address
        if self.open[person] >= own_max and not is_free:
            whose = "you have" if ACCOUNT.match(person) else "your network address has"
            message = f"{whose} {own_max} streams open here: close one, or log in"
            raise Refused("too_many_streams", message, None, 2.0)

    @contextmanager
    def open_stream(self, person: str) -> Iterator[None]:
        """Count one stream while it is open."""
        self.open[person] += 1
        try:
            yield
        finally:
            self.open[person] -= 1
            self.open += Counter()  # Removes entries of 0.
