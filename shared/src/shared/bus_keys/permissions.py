"""What each user of the bus may do: the one table that the servers' permissions are made from.

ingest, ranker, scheduler and maintenance are users of one account, which has JetStream. Their
permissions keep a mistake of one service from the data of another. They are no defence against a
hostile one: permissions do not apply to the subject that an answer is sent to, so whoever may ask
JetStream anything can have the server itself write into the log. Everybody else is in an account
of its own, and a server passes nothing between accounts except what one exports and the other
imports, answers included (docs/adr/agents.md).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from shared import subjects
from shared.subjects import (
    BLOBS,
    DEADLETTERS,
    LARGE,
    LEASES,
    SNAPSHOTS,
    STREAM,
    UPLOADS,
    WATERMARKS,
)

# The accounts of the servers themselves and of the services.
SYSTEM_ACCOUNT, SERVICES_ACCOUNT = "SYS", "WARPBOARD"
INGEST, RANKER, SCHEDULER, MAINTENANCE = "ingest", "ranker", "scheduler", "maintenance"
SERVICES = (INGEST, RANKER, SCHEDULER, MAINTENANCE)
DISCORD_EDGE = "discord-edge"
# Where the edge's announcements have come to in the log.
EDGE_CONSUMER = "discord-edge-news"
EDGE_AGGREGATES = (
    "submission.>",
    "moderation.>",
    "ranking.>",
    "rejudge.>",
    "problem.>",
    "account.>",
    "contest.>",
)
LAUNCHER_PREFIX, AGENT_PREFIX = "launcher-", "agent-"
# The user with which operators give servers new accounts.
SYSTEM_USER = "sys"
ANYBODY = "*"

PUBLISH, SUBSCRIBE = "publish", "subscribe"
_LEASES_STREAM, _LARGE_STREAM = f"KV_{LEASES}", f"OBJ_{LARGE}"
API = "$JS.API"


class Right(NamedTuple):
    """A subject that a user may publish to or subscribe to, and what for.

    `is_stream` if one request gets several answers; it matters between accounts alone.
    """

    verb: str
    subject: str
    purpose: str
    is_stream: bool = False


def _publish(purpose: str, *names: str) -> Iterator[Right]:
    return (Right(PUBLISH, name, purpose) for name in names)


def _api(purpose: str, *endpoints: str) -> Iterator[Right]:
    return _publish(purpose, *(f"{API}.{endpoint}" for endpoint in endpoints))


def _reads(purpose: str, *streams: str) -> Iterator[Right]:
    for stream in streams:
        yield from _api(purpose, f"STREAM.MSG.GET.{stream}", f"DIRECT.GET.{stream}")


def _consumes(purpose: str, stream: str) -> Iterator[Right]:
    yield from _api(
        purpose,
        f"CONSUMER.CREATE.{stream}",
        f"CONSUMER.INFO.{stream}.*",
        f"CONSUMER.MSG.NEXT.{stream}.*",
    )


def _durables(purpose: str) -> Iterator[Right]:
    """The rights of who keeps a place in the log on the server."""
    yield from _api(purpose, f"CONSUMER.DURABLE.CREATE.{STREAM}.*", f"CONSUMER.DELETE.{STREAM}.*")
    yield from _publish(purpose, f"$JS.ACK.{STREAM}.>")


def _appends(*kinds: str) -> Iterator[Right]:
    return _publish("append events", *(f"events.{kind}.>" for kind in kinds))


def _every_service(service: str) -> Iterator[Right]:
    yield from _api("find or create the streams", *(f"STREAM.{verb}.*" for verb in _SETUP))
    yield from _reads("read the log and its state", STREAM, WATERMARKS)
    yield from _consumes("follow the log", STREAM)
    yield from _publish("say what it has seen of the log", f"watermarks.{service}")
    yield from _blobs()


_SETUP = ("CREATE", "INFO", "UPDATE")


def _blobs() -> Iterator[Right]:
    yield from _reads("read blobs", BLOBS, _LARGE_STREAM)
    yield from _publish("store blobs", "blobs.*", f"$O.{LARGE}.>")


def _snapshots(service: str) -> Iterator[Right]:
    yield from _reads("read snapshots", SNAPSHOTS)
    yield from _publish("store its own snapshots", f"snapshots.{service}.*")


def _subscribes(purpose: str, *names: str) -> Iterator[Right]:
    return (Right(SUBSCRIBE, name, purpose) for name in names)


_APPENDED = {
    INGEST: (
        *(
            "account",
            "agent",
            "budget",
            "check",
            "contest",
            "duel",
            "evaluation",
            "invite",
            "moderation",
        ),
        *("pool", "problem", "quota", "rejudge", "submission", "webhook"),
    ),
    RANKER: (*("audit", "confirmation", "duel", "ranking", "rejudge", "submission", "yardstick"),),
    SCHEDULER: (
        *("agent", "budget", "evaluation", "job", "launcher", "quota", "report", "run", "stop"),
        "submission",
    ),
}


# Ingest's own of the platform's matters. Seals, segments and truncations are ranker's alone.
_INGEST_AUDITS = ("accounts", "operators", "platform", "projections", "redriven.*")


def _ingest() -> Iterator[Right]:
    yield from _publish("append events", *(f"events.audit.{name}" for name in _INGEST_AUDITS))
    yield from _snapshots(INGEST)
    yield from _reads("show dead letters", DEADLETTERS)
    yield from _subscribes("show the progress of runs", "progress.>")


def _ranker() -> Iterator[Right]:
    yield from _durables("announce results")
    yield from _consumes("see which agents live", _LEASES_STREAM)
    yield from _subscribes("show the progress of runs and queues", "progress.>", "queue.>")
    yield from _publish("say what a comparison with the archive found", "watermarks.scrub")
    truncate = "truncate the log behind sealed segments"
    yield from _api(truncate, f"STREAM.PURGE.{STREAM}", f"CONSUMER.LIST.{STREAM}")


def _scheduler() -> Iterator[Right]:
    yield from _snapshots(SCHEDULER)
    yield from _durables("make orders readable to agents")
    yield from _consumes("see which agents live", _LEASES_STREAM)
    yield from _reads("count dead letters", DEADLETTERS)
    yield from _api("count readers", f"CONSUMER.LIST.{STREAM}")
    yield from _publish("tell how long queues are", "queue.*")
    yield from _subscribes("answer agents, launchers and the Discord edge", "agents.*.*")
    yield from _subscribes("answer agents, launchers and the Discord edge", "readers.*.*")
    yield from _publish("answer agents, launchers and the Discord edge", "_R_.>")
    yield from _reads("put large blobs of agents together", UPLOADS)
    yield from _publish("put large blobs of agents together", "uploads.*.*.*")
    yield from _api("put large blobs of agents together", f"STREAM.PURGE.{UPLOADS}")


_OWN = {INGEST: _ingest, RANKER: _ranker, SCHEDULER: _scheduler}


def _inbox(user: str) -> Right:
    return Right(SUBSCRIBE, f"_INBOX_{user}.>", "receive answers")


def _agent(agent_id: str) -> Iterator[Right]:
    consumer = ANYBODY if agent_id == ANYBODY else subjects.agent_inbox(agent_id)
    yield from _publish("show that it lives", f"$KV.{LEASES}.agent.{agent_id}")
    yield from _publish("tell the progress of its runs", f"progress.{agent_id}.*")
    yield from _publish("ask services, which append its reports", f"agents.{agent_id}.*")
    yield from _reads_consumer("read its orders", consumer)


def _reads_consumer(purpose: str, consumer: str) -> Iterator[Right]:
    yield Right(PUBLISH, f"{API}.CONSUMER.MSG.NEXT.{STREAM}.{consumer}", purpose, is_stream=True)
    yield from _publish(purpose, f"$JS.ACK.{STREAM}.{consumer}.>")


def _reader(name: str) -> Iterator[Right]:
    yield from _publish("ask services, which read and append for it", f"readers.{name}.*")


def exports() -> Sequence[Right]:
    """Return what the services' account answers to users of other accounts."""
    return (*_agent(ANYBODY), *_reader(ANYBODY))


def user_rights(user: str) -> Sequence[Right]:
    """Return everything that a user may do. Raises ValueError for a name that is not a user's.

    >>> user_rights("agent-a1")[0].subject
    '$KV.LEASES.agent.a1'
    """
    if user == MAINTENANCE:
        everything = "look after the log: back up, compare, repair, remove"
        return (Right(PUBLISH, ">", everything), Right(SUBSCRIBE, ">", everything))
    if user in _OWN:
        return (
            *_every_service(user),
            *_appends(*_APPENDED[user]),
            *_OWN[user](),
            _inbox(user),
        )
    return (*_rights_apart(user), _inbox(user))


def _rights_apart(user: str) -> Iterator[Right]:
    if user.startswith(AGENT_PREFIX):
        agent_id = user.removeprefix(AGENT_PREFIX)
        subjects.agent(agent_id)
        return _agent(agent_id)
    if user.startswith(LAUNCHER_PREFIX):
        subjects.launcher(user.removeprefix(LAUNCHER_PREFIX))
        return _reader(user)
    if user == DISCORD_EDGE:
        return chain(_reader(user), _reads_consumer("read what it announces", EDGE_CONSUMER))
    reason = f"{user} is not a user: expected {', '.join(SERVICES)}, {DISCORD_EDGE}, "
    raise ValueError(f"{reason}{LAUNCHER_PREFIX}NAME or {AGENT_PREFIX}ID")


def readable(user: str) -> Sequence[str]:
    """Return the aggregates that services read for a user in an account of its own.

    >>> readable("launcher-modal")
    ('launcher.modal', 'agent.*')
    """
    if user == DISCORD_EDGE:
        return EDGE_AGGREGATES
    if user.startswith(LAUNCHER_PREFIX):
        return (subjects.launcher(user.removeprefix(LAUNCHER_PREFIX)), "agent.*")
    return ()


def can_read(user: str, aggregate: str) -> bool:
    """Return whether services read the events of an aggregate for a user.

    >>> can_read("launcher-modal", "agent.a1"), can_read("launcher-modal", "agent.*")
    (True, False)
    """
    if not set(aggregate).isdisjoint("*>"):
        return False
    return any(_matches(pattern, aggregate) for pattern in readable(user))


def account_of(user: str) -> str:
    """Return the name of a user's account.

    >>> account_of("ranker"), account_of("agent-a1")
    ('WARPBOARD', 'AGENT-a1')
    """
    if user == SYSTEM_USER:
        return SYSTEM_ACCOUNT
    if user in SERVICES:
        return SERVICES_ACCOUNT
    kind, dash, name = user.partition("-")
    return f"{kind.upper()}{dash}{name}" if kind != "discord" else user.upper()


def allowed(rights: Iterable[Right], verb: str) -> list[str]:
    """Return the subjects of the rights with this verb, each once."""
    return list(dict.fromkeys(right.subject for right in rights if right.verb == verb))


def is_allowed(user: str, verb: str, subject: str) -> bool:
    """Return whether a user may publish or subscribe to a subject without wildcards.

    >>> is_allowed("ranker", PUBLISH, "events.ranking.matmul.CPU")
    True
    >>> is_allowed("ranker", PUBLISH, "events.account.eve")
    False
    """
    return any(_matches(pattern, subject) for pattern in allowed(user_rights(user), verb))


def _matches(pattern: str, subject: str) -> bool:
    words, tokens = pattern.split("."), subject.split(".")
    if words[-1] == ">":
        words = words[:-1]
        if len(tokens) <= len(words):
            return False
        tokens = tokens[: len(words)]
    return len(words) == len(tokens) and all(
        word in ("*", token) for word, token in zip(words, tokens, strict=True)
    )
