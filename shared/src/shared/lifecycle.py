"""The lifecycle of a service's process: run until a signal, drain, exit.

With its log lines (one JSON object per line on stderr, each at most 8 KiB) and its limit of files.
"""

import asyncio
import json
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import uvloop

from shared import metrics
from shared.errors import Failed, Refused
from shared.health import LOOP_PART
from shared.settings import Listen
from shared.tracing import DISCARD, SpanRecorder
from shared.version import VERSION

# NATS, Postgres, logs, the ops server, modules being imported, uploads on their way to disk.
FILES_RESERVED = 128
FILES_MIN = 512
CONNECTIONS_MAX = 8192
STREAMS_MAX = 1000


def raise_file_limit(files_min: int = FILES_MIN) -> int:
    """Raise the soft limit on open files to the hard one, and return it.

    Raises `Refused` if even the hard limit is below `files_min`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < files_min:
        reason = (
            f"this process may open {hard} files at once, but needs at least {files_min}: raise "
            "the hard limit (`ulimit -Hn`, LimitNOFILE= in systemd, `ulimits: nofile:` in compose)"
        )
        raise Refused("bad_settings", reason)
    return file_limit()


def file_limit() -> int:
    """Return the number of files that this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Enough for every connection and for the files its request needs.
    files_needed_max = 2 * CONNECTIONS_MAX + FILES_RESERVED
    return files_needed_max if soft == resource.RLIM_INFINITY else soft


def connections_max(files: int) -> int:
    """Return how many clients may be connected; half of the files is for their requests.

    >>> connections_max(1024), connections_max(1_048_576)
    (448, 8192)
    """
    return min(CONNECTIONS_MAX, max(1, (files - FILES_RESERVED) // 2))


def streams_max(files: int) -> int:
    """Return how many live streams may be open, leaving room for other requests.

    >>> streams_max(1024), streams_max(20_000)
    (224, 1000)
    """
    return min(STREAMS_MAX, max(1, connections_max(files) // 2))


LINE_BYTES_MAX = 8 * 1024

# Attributes that logging itself sets; all others are fields given by `extra`.
_RECORD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _shorten(value: object, chars_max: int) -> object:
    """Shorten a value to about `chars_max` characters of text: its head and its tail."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text) <= chars_max:
        return value
    half = chars_max // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters left out … {text[-half:]}"


def line(fields: dict[str, object]) -> str:
    r"""Return one log line; long values lose their middle until the line fits into 8 KiB.

    >>> line({"message": "job j1 was queued", "wait_s": 0.5})
    '{"message": "job j1 was queued", "wait_s": 0.5}'
    >>> len(line({"message": "x" * 100_000})) <= LINE_BYTES_MAX
    True
    """
    text = json.dumps(fields, default=str)
    chars_max = LINE_BYTES_MAX // 2
    while len(text) > LINE_BYTES_MAX and chars_max >= 16:
        text = json.dumps(
            {key: _shorten(value, chars_max) for key, value in fields.items()}, default=str
        )
        chars_max //= 2
    if len(text) > LINE_BYTES_MAX:
        head = dict(list(fields.items())[:4])
        return line(
            head | {"message": _shorten(str(fields.get("message")), 1000), "cut": len(fields)}
        )
    return text


class _JsonFormatter(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "service": self.service,
            "message": record.getMessage(),
            "logger": record.name,
        }
        fields |= {
            key: value for key, value in vars(record).items() if key not in _RECORD_ATTRIBUTES
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return line(fields)


def configure_logging(service: str) -> None:
    """Send all log lines of this process, including Python's warnings, to stderr as JSON.

    Fields given by `extra=` stand beside the message; an exception is one field.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter(service))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    # Borrowers of connections report outages, rarely; the pool would log every attempt.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    # It logs every request.
    logging.getLogger("httpx").setLevel(logging.WARNING)


HEARTBEAT_S = 1.0
STUCK_AFTER_S = 10.0
END_S_MAX = 5.0

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class Lifecycle:
    """The state of a process: whether it should stop, and which of its parts are unhealthy.

    `spans` takes what it did for submissions.
    """

    def __init__(self) -> None:
        self.spans: SpanRecorder = DISCARD
        self.stopping = asyncio.Event()
        self._unhealthy_parts: dict[str, str] = {}
        self._heartbeat_at = time.monotonic()

    def report_unhealthy(self, part: str, reason: str | None) -> None:
        """Mark a part unhealthy, with the reason shown in /healthz, or healthy again with None."""
        if reason is None:
            self._unhealthy_parts.pop(part, None)
        else:
            self._unhealthy_parts[part] = reason

    def unhealthy_parts(self) -> dict[str, str]:
        """Return the unhealthy parts with their reasons; a stuck event loop is one of them."""
        silence_s = time.monotonic() - self._heartbeat_at
        stuck = {LOOP_PART: f"silent for {silence_s:.0f} s"} if silence_s > STUCK_AFTER_S else {}
        return self._unhealthy_parts.copy() | stuck

    async def beat(self, late: Callable[[float], None]) -> None:
        """Record, without end, that the event loop turns, and report how late."""
        while True:
            self._heartbeat_at = time.monotonic()
            await asyncio.sleep(HEARTBEAT_S)
            late(time.monotonic() - self._heartbeat_at - HEARTBEAT_S)


@contextmanager
def keep_cancellation() -> Iterator[None]:
    """Raise CancelledError at the end, if the block dropped a cancellation of its task.

    In Python 3.11 `asyncio.wait_for` drops one that arrives together with the awaited result, and
    the clients of NATS and Postgres use it. Such a task would never end.
    """
    task = asyncio.current_task()
    cancelled = task.cancelling() if task else 0
    yield
    if task is not None and task.cancelling() > cancelled:
        raise asyncio.CancelledError


async def run_until_first(*loops: Coroutine[Any, Any, object]) -> None:
    """Run all until the first ends or fails, and cancel the others.

    Errors: that of the one that failed. Several failures at once, because something outside is
    away, count as one, but a bug is raised before them; several bugs raise an ExceptionGroup.
    """
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    failures = [task.exception() for task in tasks if not task.cancelled()]
    failed = [failure for failure in failures if failure is not None]
    bugs = [failure for failure in failed if not isinstance(failure, Failed)]
    if len(bugs) > 1:
        raise BaseExceptionGroup("several loops failed", bugs)
    if failed:
        raise (bugs or failed)[0]


def _stop_on_signals(life: Lifecycle) -> None:
    def stop(number: signal.Signals) -> None:
        if life.stopping.is_set():
            _log.warning("received a second %s: exiting now", number.name)
            os._exit(1)
        _log.info("stopping on %s", number.name)
        life.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)


def _exit_after(timeout_s: float) -> threading.Timer:
    """Exit after a timeout: a hung thread or an uncancellable task must not keep the process."""

    def leave() -> None:
        _log.error("still running %.0f s after the stop: exiting", timeout_s)
        os._exit(1)

    exit_timer = threading.Timer(timeout_s, leave)
    exit_timer.daemon = True
    exit_timer.start()
    return exit_timer


async def _finish(task: "asyncio.Future[None]", drain_s: float) -> int:
    """Wait for the end of main, at most `drain_s`, and return the exit code."""
    finished, _ = await asyncio.wait({task}, timeout=drain_s)
    if not finished:
        _log.error("did not drain within %.0f s: cancelling", drain_s)
        task.cancel()
        await asyncio.wait({task}, timeout=END_S_MAX)
        return 1
    failure = None if task.cancelled() else task.exception()
    if failure is not None:
        _log.critical("the process failed: %s", failure, exc_info=failure)
    return 1 if task.cancelled() or failure is not None else 0


async def _run(
    service: str,
    ops: Listen,
    main: Callable[[Lifecycle], Awaitable[None]],
    drain_s: float,
    ending: ExitStack,
) -> int:
    """Run main with its signals, ops server and time limits; `ending` outlives the event loop."""
    life = Lifecycle()
    _stop_on_signals(life)
    server = metrics.serve_ops(ops, life.unhealthy_parts)
    observe_lag = metrics.ProcessMetrics(service, life.unhealthy_parts).turned
    watchers = [
        asyncio.create_task(life.beat(observe_lag)),
        asyncio.create_task(life.stopping.wait()),
    ]
    main_task = asyncio.ensure_future(main(life))
    try:
        await asyncio.wait({main_task, watchers[1]}, return_when=asyncio.FIRST_COMPLETED)
        ending.callback(_exit_after(drain_s + 2 * END_S_MAX).cancel)
        return await _finish(main_task, drain_s)
    finally:
        for watcher in watchers:
            watcher.cancel()
        server.close()


def run_main(main: Coroutine[Any, Any, Result]) -> Result:
    """Run main on libuv's event loop, where a message costs a third less than on Python's."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def run_until_signal(
    service: str, ops: Listen, main: Callable[[Lifecycle], Awaitable[None]], drain_s: float = 20.0
) -> int:
    """Run a service until SIGTERM or SIGINT and return its exit code.

    The first signal sets `Lifecycle.stopping`, after which main has `drain_s` to return; a second
    one ends the process at once. 0 is a normal end; 1 a failure, which is logged, or a drain that
    took too long.
    """
    configure_logging(service)
    _log.info("starting version %s", VERSION)
    with ExitStack() as ending:
        try:
            return run_main(_run(service, ops, main, drain_s, ending))
        except OSError as error:
            _log.critical("cannot listen on %s: %s", ops, error)
            return 1


class ServiceSettings(Protocol):
    """The settings that every service has."""

    @property
    def ops_listen(self) -> Listen:
        """The address of /healthz and /metrics."""


Settings = TypeVar("Settings", bound=ServiceSettings)


@contextmanager
def open_recorder(service: str, *, is_on: bool, is_waiting: bool = False) -> Iterator[SpanRecorder]:
    """Yield what records the spans of a service, and export the last ones at the end.

    With `is_waiting` spans are exported only when the service says so. Errors: Refused if it is on
    and the extra `tracing` is not installed.
    """
    if not is_on:
        yield DISCARD
        return
    try:
        from shared.otlp import OtlpRecorder
    except ImportError as error:
        reason = (
            f"WARPBOARD_{service.upper().replace('-', '_')}_TRACING is true, but OpenTelemetry is "
            f"not installed: pip install './shared[tracing]' in a clone ({error})"
        )
        raise Refused("bad_settings", reason) from error
    recorder = OtlpRecorder(service, is_waiting=is_waiting)
    try:
        yield recorder
    finally:
        recorder.close()


def run_service(  # noqa: PLR0913, PLR0917  (what a process needs)
    service: str,
    load: Callable[[], Settings],
    work: Callable[[Settings, Lifecycle], Awaitable[None]],
    drain_s: float = 20.0,
    files_min: int = 0,
    record: Callable[[Settings], AbstractContextManager[SpanRecorder]] | None = None,
) -> int:
    """Read the settings and run the service; return 2, with a message, if they are refused.

    With `files_min` the process may open as many files as the system allows, and at least that.
    `record` opens what records spans.
    """
    with ExitStack() as ending:
        try:
            settings = load()
            if files_min:
                raise_file_limit(files_min)
            spans = ending.enter_context(record(settings)) if record else DISCARD
        except Refused as refused:
            sys.stderr.write(f"{refused.reason}\n")
            return 2

        def main(life: Lifecycle) -> Awaitable[None]:
            life.spans = spans
            return work(settings, life)

        return run_until_signal(service, settings.ops_listen, main, drain_s)
