"""How many live streams may be open."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ingest.identity.http.authenticator import Authenticator
from ingest.ports import ReadProxy
from shared.errors import Refused
from shared.lifecycle import STREAMS_MAX

OWN_STREAMS_MAX = 100


class StreamLimiter:
    """Limits open live streams, each of which needs connections and memory."""

    def __init__(
        self, reads: ReadProxy, auth: Authenticator, streams_max: int = STREAMS_MAX
    ) -> None:
        self.reads = reads
        self.auth = auth
        self.streams_max = streams_max
        self.open: Counter[str] = Counter()

    def check(self, person: str, *, is_free: bool = False) -> None:
        """Refuse one stream too many. Raises `Refused` (`too_many_streams`).

        The limit per person does not apply to staff, nor where names are believed.
        """
        is_free = is_free or self.auth.config.are_names_believed
        if self.open.total() >= self.streams_max:
            message = f"{self.streams_max} streams are open here: try again in a moment"
            raise Refused("too_many_streams", message, None, 2.0)
        if self.open[person] >= OWN_STREAMS_MAX and not is_free:
            message = f"you have {OWN_STREAMS_MAX} streams open here: close one first"
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
