"""What a test sees of the log lines that the code under it writes."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Collector(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.messages.append(record.getMessage())


@contextmanager
def collect_warnings(logger: str) -> Iterator[list[str]]:
    """The messages of a logger, warnings and worse, as they come."""
    collector = _Collector([])
    logging.getLogger(logger).addHandler(collector)
    try:
        yield collector.messages
    finally:
        logging.getLogger(logger).removeHandler(collector)
