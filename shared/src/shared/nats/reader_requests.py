"""What services do for the Discord edge and for launchers, which may not use the log themselves.

Such a user sends requests on `readers.<user>.<request>`; its account allows only its own, so the
subject names the sender, and `shared.bus_keys.permissions` which aggregates it reads. A launcher's
events are appended if they are of the types that launchers write, in its own history or in that of
an agent that no operator has enrolled. Their ids are derived from the sender and the ids that it
sent: the log drops an event whose id it has, and a launcher could foresee those of services.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.allowances import Allowance
from shared.bus_keys.permissions import (
    DISCORD_EDGE,
    EDGE_AGGREGATES,
    EDGE_CONSUMER,
    LAUNCHER_PREFIX,
    can_read,
)
from shared.clock import now
from shared.errors import Failed, Refused
from shared.event_log import Conflict, NewEvent
from shared.events import (
    LAUNCHER,
    LAUNCHER_ACTOR,
    AgentEnrolled,
    AgentRevoked,
    InstanceEnded,
    LauncherRegistered,
)
from shared.health import warn_rarely
from shared.nats.agent_requests import (
    ANSWER_S_MAX,
    BAD,
    CONFLICT,
    FAILED,
    LIMITED,
    OK,
    SIZE,
    STATUS,
    Conduct,
)
from shared.nats.bus import NatsBus
from shared.nats.connection import REQUEST_ERRORS, TemporaryError, get_message
from shared.nats.event_log import NatsLog
from shared.nats.inbox import InboxConfig, consumer_settings
from shared.nats.pull import create_consumer, delivery_start, find_consumer
from shared.nats.streams import LogMonitor, Settings, stream_state
from shared.reports import SKEW_S_MAX
from shared.segments import is_cut
from shared.wire import Envelope, UnknownEvent, decode, decode_fact, forgery_reason

log = logging.getLogger(__name__)

STATE, HISTORY, EVENT, INBOX, FORGET, APPEND = (
    *("state", "history", "event", "inbox", "forget", "append"),
)
CONCURRENT_MAX = 32
PAGE_BYTES_MAX = 512 * 1024
# What a launcher appends: two events for each agent that it starts.
APPENDS_BURST, APPENDS_PER_S = 200.0, 2.0


def edge_inbox_config() -> InboxConfig:
    """Return the config of what the Discord edge announces."""
    aggregates = (*EDGE_AGGREGATES, subjects.redriven(EDGE_CONSUMER))
    return InboxConfig(EDGE_CONSUMER, aggregates, only_news=True)


class LogState(msgspec.Struct, frozen=True):
    """Why the log must not be used now, "" if it is healthy, and whether events are missing."""

    problem: str = ""
    is_damaged: bool = False


def log_state(monitor: LogMonitor) -> LogState:
    """Return what a monitor knows of the log. Errors: TemporaryError while it knows nothing.

    A log that is still to be checked is not called damaged: readers stop once a damaged log is
    complete again, for they may have read it without the lost events.
    """
    if not monitor.damage and not monitor.is_checked:
        raise TemporaryError("the log is being checked")
    return LogState(monitor.problem, bool(monitor.damage))


class HistoryRequest(msgspec.Struct, frozen=True):
    """Return the events of an aggregate after a sequence."""

    aggregate: str
    after: int = 0


class EventRequest(msgspec.Struct, frozen=True):
    """Return one event."""

    seq: int


class EventPage(msgspec.Struct, frozen=True):
    """Events as they are in the log, by their sequences, and whether there are more."""

    events: list[tuple[int, msgspec.Raw]]
    has_more: bool = False


class InboxRequest(msgspec.Struct, frozen=True):
    """Make my events readable after this sequence; without one, future events."""

    after: int | None = None


class InboxResponse(msgspec.Struct, frozen=True):
    """The events after this sequence can be read."""

    after: int


class AppendRequest(msgspec.Struct, frozen=True):
    """Append an event of mine."""

    event: msgspec.Raw


class AppendResponse(msgspec.Struct, frozen=True):
    """The sequence of the event."""

    seq: int


class _Agent(NamedTuple):
    """An agent up to a sequence: whether it was revoked, and whether an operator enrolled it."""

    seq: int = 0
    is_revoked: bool = False
    is_an_operators: bool = False


class ReaderRequests:
    """Answers the Discord edge and the launchers; several services may do so at once."""

    def __init__(self, nc: Client, event_log: NatsLog, state: Callable[[], LogState]) -> None:
        self._nc = nc
        self._log = event_log
        self._state = state
        self._running: set[asyncio.Task[None]] = set()
        self._agents: dict[str, _Agent] = {}
        self._conducts: defaultdict[str, Conduct] = defaultdict(Conduct)
        self._appends: defaultdict[str, Allowance] = defaultdict(
            lambda: Allowance(APPENDS_BURST, APPENDS_PER_S)
        )
        self._handlers: dict[str, Callable[[str, bytes], Awaitable[object]]] = {
            STATE: self._handle_state,
            HISTORY: self._handle_history,
            EVENT: self._handle_event,
            INBOX: self._handle_inbox,
            FORGET: self._handle_forget,
            APPEND: self._handle_append,
        }

    async def serve(self) -> None:
        """Answer until the connection is closed."""
        subscription = await self._nc.subscribe("readers.*.*", queue="readers")
        try:
            async for message in subscription.messages:
                while len(self._running) >= CONCURRENT_MAX:
                    await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                conduct = self._conducts[message.subject.split(".")[1]]
                if not conduct.may_ask():
                    await self._answer(message, LIMITED)
                    continue
                conduct.running += 1
                task = asyncio.create_task(self._handle(message))
                self._running.add(task)
                task.add_done_callback(partial(self._end, conduct))
        finally:
            for unfinished in self._running:
                unfinished.cancel()
            if not self._nc.is_closed:
                await subscription.unsubscribe()

    def _end(self, conduct: Conduct, task: "asyncio.Task[None]") -> None:
        conduct.running -= 1
        self._running.discard(task)

    async def _handle(self, message: Msg) -> None:
        _, reader, request = message.subject.split(".")
        data, status = b"", OK
        try:
            if request not in self._handlers:
                raise ValueError("unknown request")  # noqa: TRY301  (refused below, as others are)
            async with asyncio.timeout(ANSWER_S_MAX):
                response = await self._handlers[request](reader, message.data)
                data = msgspec.json.encode(response)
        except (Conflict, Refused) as refused:
            status = CONFLICT
            warn_rarely(log, "reader refused", "refused %s of %s: %s", request, reader, refused)
        except _TooSoonError:
            status = LIMITED
        except (ValueError, msgspec.MsgspecError, UnknownEvent) as error:
            status = BAD
            warn_rarely(log, "reader refused", "refused %s of %s: %s", request, reader, error)
        except (*REQUEST_ERRORS, Failed) as error:
            status = FAILED
            warn_rarely(
                log, "reader failed", "could not answer %s of %s: %s", request, reader, error
            )
        await self._answer(message, status, data)

    async def _answer(self, message: Msg, status: str, data: bytes = b"") -> None:
        """Answer, if the connection allows it; otherwise the sender asks again."""
        if message.reply and not self._nc.is_closed:
            headers = {STATUS: status, SIZE: str(len(data))}
            with suppress(*REQUEST_ERRORS):
                await self._nc.publish(message.reply, data, headers=headers)

    async def _handle_state(self, _reader: str, _body: bytes) -> LogState:
        return self._state()

    async def _handle_history(self, reader: str, body: bytes) -> EventPage:
        request = msgspec.json.decode(body, type=HistoryRequest)
        if not can_read(reader, request.aggregate):
            raise ValueError(f"{reader} may not read {request.aggregate}")
        if is_cut(request.aggregate):
            raise ValueError(f"the history of {request.aggregate} is read event by event")
        events, has_more = await self._log.history_page(
            request.aggregate, request.after, PAGE_BYTES_MAX
        )
        return EventPage([(event.seq, msgspec.Raw(event.body)) for event in events], has_more)

    async def _handle_event(self, reader: str, body: bytes) -> EventPage:
        request = msgspec.json.decode(body, type=EventRequest)
        message = await get_message(self._nc, subjects.STREAM, {"seq": request.seq})
        if message is None or not can_read(reader, subjects.aggregate(message.subject)):
            return EventPage([])
        return EventPage([(message.seq, msgspec.Raw(message.data))])

    async def _handle_inbox(self, reader: str, body: bytes) -> InboxResponse:
        """Create the consumer of what the edge announces, or give it the aggregates of today."""
        _check_edge(reader)
        request = msgspec.json.decode(body, type=InboxRequest)
        info = await find_consumer(self._nc, subjects.STREAM, EDGE_CONSUMER)
        if info is None:
            last = (await stream_state(self._nc, subjects.STREAM)).last_seq
            after = last if request.after is None else min(max(request.after, 0), last)
            place: Settings = delivery_start(after + 1) | {"mem_storage": False}
        else:
            after = info.ack_floor.stream_seq
            # The server does not allow changing where a consumer starts or stores its position.
            fixed = ("deliver_policy", "opt_start_seq", "mem_storage")
            place = {key: info.config[key] for key in fixed if key in info.config}
        settings = consumer_settings(edge_inbox_config()) | place
        await create_consumer(self._nc, subjects.STREAM, settings)
        return InboxResponse(after)

    async def _handle_forget(self, reader: str, _body: bytes) -> None:
        _check_edge(reader)
        await NatsBus(self._nc).forget(EDGE_CONSUMER)

    async def _handle_append(self, reader: str, body: bytes) -> AppendResponse:
        """Append an event of a launcher.

        Errors: Refused if it is not one that it may write; _TooSoonError.
        """
        if not self._appends[reader].take():
            raise _TooSoonError
        envelope = decode(bytes(msgspec.json.decode(body, type=AppendRequest).event))
        if reason := _why_forged(reader, envelope) or await self._why_not_its_own(reader, envelope):
            raise Refused("not_yours", reason)
        own = replace(envelope, id=subjects.derive_id(f"readers.{reader}", envelope.id))
        return AppendResponse(await self._log.append(NewEvent(own, None)))

    async def _why_not_its_own(self, reader: str, envelope: Envelope) -> str:
        """Say why a launcher may not write this type or about this aggregate; "" if it may."""
        fact = decode_fact(envelope)
        if isinstance(fact, AgentEnrolled):
            return await self._why_not_enrolled(envelope.aggregate, fact)
        if not isinstance(fact, LauncherRegistered | InstanceEnded):
            return f"launchers do not write {envelope.type}"
        if envelope.aggregate != subjects.launcher(reader.removeprefix(LAUNCHER_PREFIX)):
            return f"{envelope.aggregate} is not the history of {reader}"
        if isinstance(fact, LauncherRegistered):
            return await self._why_not_offered(fact)
        return ""

    async def _why_not_enrolled(self, aggregate: str, fact: AgentEnrolled) -> str:
        """Say why a launcher may not enrol an agent; "" if it may."""
        if fact.owner != LAUNCHER:
            return "a launcher enrols agents as its own"
        agent = await self._read_agent(aggregate)
        if agent.is_revoked:
            return f"{aggregate} was revoked"
        return f"an operator has enrolled {aggregate}" if agent.is_an_operators else ""

    async def _why_not_offered(self, fact: LauncherRegistered) -> str:
        """Say why a launcher may not offer its agents; "" if it may."""
        for agent in fact.agents:
            aggregate = subjects.agent(agent)
            if (await self._read_agent(aggregate)).is_an_operators:
                return f"an operator has enrolled {aggregate}"
        return ""

    async def _read_agent(self, aggregate: str) -> _Agent:
        """Return what is known of an agent, after the events that it got since the last time."""
        agent, has_more = self._agents.get(aggregate, _Agent()), True
        while has_more:
            events, has_more = await self._log.history_page(aggregate, agent.seq, PAGE_BYTES_MAX)
            for event in events:
                fact = event.fact
                agent = _Agent(
                    event.seq,
                    agent.is_revoked or isinstance(fact, AgentRevoked),
                    agent.is_an_operators
                    or (isinstance(fact, AgentEnrolled) and fact.owner != LAUNCHER),
                )
        if agent.seq:
            self._agents[aggregate] = agent
        return agent


class _TooSoonError(Exception):
    """A launcher appends more than it may by now."""


def _why_forged(reader: str, envelope: Envelope) -> str:
    """Say why a launcher cannot have made this event now; "" if it can."""
    if not reader.startswith(LAUNCHER_PREFIX) or envelope.actor != LAUNCHER_ACTOR:
        return f"{reader} does not write in the name of {envelope.actor}"
    if abs((envelope.at - now()).total_seconds()) > SKEW_S_MAX:
        return f"{envelope.type} is of {envelope.at:%Y-%m-%d %H:%M}: set the launcher's clock"
    return forgery_reason(envelope)


def _check_edge(reader: str) -> None:
    if reader != DISCORD_EDGE:
        raise ValueError(f"{reader} has no consumer")
