"""Names in NATS: aggregates, subjects, streams and buckets. Ids that are derived from others."""

import hashlib
import re
from functools import partial

# The account of baselines; it cannot be a participant's, since those are UUIDs.
BASELINE_ACCOUNT = "platform:baseline"
# The account of the quota limits that apply to everybody without their own.
EVERYBODY = "default"
NAMESPACE = bytes.fromhex("5b1d8f0a6c1f5f6e9d3a7c2b4e8f1a60")


def derive_id(cause: str, effect: str) -> str:
    """Return the id of what `cause` leads to: a UUIDv5, so a decision made twice has one id.

    >>> derive_id("a", "JobQueued") == derive_id("a", "JobQueued")
    True
    >>> derive_id("a", "JobQueued")
    '4a11262f-f93e-5dab-9db4-7bce4627bf5e'
    """
    digest = bytearray(hashlib.sha1(NAMESPACE + f"{cause}/{effect}".encode()).digest()[:16])  # noqa: S324
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def job_id_of(request: str) -> str:
    """Return the id of the job of a submission, a duel, a confirmation or a problem's check."""
    return derive_id(request, "job")


def chunk_job_id(evaluation: str, first: int) -> str:
    """Return the id of the job of a chunk of an evaluation that began with this item."""
    return derive_id(evaluation, f"chunk/{first}")


def run_confirmation_id(run: str) -> str:
    """Return the id of a run's confirmation."""
    return derive_id(run, "confirmation")


def contest_confirmation_id(contest: str, run: str, attempt: int) -> str:
    """Return the id of an attempt, from 1 on, to confirm a run of a contest's winner."""
    return derive_id(run, f"confirmation/{contest}/{attempt}")


def retime_id(submission: str, number: int, attempt: int) -> str:
    """Return the id of the rejudge that times a noisy run again, under the same version."""
    return derive_id(f"{submission}/{number}", f"retime/{attempt}")


def podium_duel_id(problem: str, number: int, gpu: str, sources: tuple[str, str]) -> str:
    """Return the id of the automatic duel between two sources on a leaderboard.

    `number` is the problem version's; `sources` are digests, in either order.

    >>> podium_duel_id("p", 1, "CPU", ("a", "b")) == podium_duel_id("p", 1, "CPU", ("b", "a"))
    True
    """
    first, second = sorted(sources)
    return derive_id(f"{problem}/{number}/{gpu}", f"duel/{first}/{second}")


STREAM = "EVENTS"
BLOBS = "BLOBS"
LARGE = "LARGE"
LEASES = "LEASES"
DEADLETTERS = "DEADLETTERS"
SNAPSHOTS = "SNAPSHOTS"
UPLOADS = "UPLOADS"
WATERMARKS = "WATERMARKS"

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def _name(kind: str, *ids: str) -> str:
    for token in ids:
        if not _TOKEN.match(token):
            raise ValueError(f"{token!r} is not an id: expected 1 to 64 of A-Z a-z 0-9 _ and -")
    return ".".join((kind, *ids))


def _name_with_id(kind: str, id_: str) -> str:
    return _name(kind, id_)


# Aggregates by their id.
problem = partial(_name_with_id, "problem")
submission = partial(_name_with_id, "submission")
# Decisions about a submission after its end.
moderation = partial(_name_with_id, "moderation")
job = partial(_name_with_id, "job")
agent = partial(_name_with_id, "agent")
# The agents of one GPU type.
pool = partial(_name_with_id, "pool")
# Starts agents on demand, each for one job.
launcher = partial(_name_with_id, "launcher")
account = partial(_name_with_id, "account")
# The quotas of an account; `default` has the limits of everybody.
quota = partial(_name_with_id, "quota")
# An invite to closed leaderboards.
invite = partial(_name_with_id, "invite")
# A contest, with its contestants, by its slug.
contest = partial(_name_with_id, "contest")
webhook = partial(_name_with_id, "webhook")
rejudge = partial(_name_with_id, "rejudge")
duel = partial(_name_with_id, "duel")
confirmation = partial(_name_with_id, "confirmation")
# The checks of problems that an account asked for.
check = partial(_name_with_id, "check")
# Many sources for one problem version.
evaluation = partial(_name_with_id, "evaluation")
# The device time that an account used for evaluations.
budget = partial(_name_with_id, "budget")
# Requests to an agent to end the run of a chunk early.
stop = partial(_name_with_id, "stop")
# A platform matter, such as `seal` or `platform`.
audit = partial(_name_with_id, "audit")


def ranking(slug: str, gpu: str) -> str:
    """Return the aggregate of a leaderboard's records."""
    return _name("ranking", slug, gpu)


def yardstick(slug: str, gpu: str, number: int) -> str:
    """Return the aggregate of the fixed yardstick of a problem version on a GPU type.

    >>> yardstick("matmul", "CPU", 2)
    'yardstick.matmul.CPU.2'
    """
    return _name("yardstick", slug, gpu, str(number))


def role_quota(role: str) -> str:
    """Return the aggregate of the quota limits of a role; no account has such an id.

    >>> role_quota("creator")
    'quota.role-creator'
    """
    return quota(f"role-{role}")


def contest_quota_id(contest_slug: str, contestant: str) -> str:
    """Return the id under which a contestant's use of the quotas of a contest is counted."""
    return derive_id(f"contest/{contest_slug}", f"quota/{contestant}")


def run(agent_id: str, run_id: str) -> str:
    """Return the aggregate of a run's orders, which only scheduler may write."""
    return _name("run", agent_id, run_id)


def report(agent_id: str, run_id: str) -> str:
    """Return the aggregate of an agent's reports on a run, which only that agent may write."""
    return _name("report", agent_id, run_id)


def runs(agent_id: str) -> str:
    """Return the common prefix of an agent's run aggregates, without the final dot.

    >>> runs("a1")
    'run.a1'
    """
    return _name("run", agent_id)


def redriven(consumer: str) -> str:
    """Return the aggregate of events that an operator redrove to a durable consumer.

    >>> redriven("gpu-agent-a1")
    'audit.redriven.gpu-agent-a1'
    """
    # It contains an agent's id, so it can be longer than an id; durable names have no dots.
    assert consumer.replace("-", "").replace("_", "").isalnum(), f"{consumer!r} is not a consumer"
    return f"audit.redriven.{consumer}"


def history_of(aggregate: str) -> str:
    """Return the aggregate that names a history: a run's orders and reports are one history.

    >>> history_of(report("a1", "r7")), history_of(job("j1"))
    ('run.a1.r7', 'job.j1')
    """
    kind, _, ids = aggregate.partition(".")
    return f"run.{ids}" if kind == "report" else aggregate


def subject(aggregate: str) -> str:
    """Return the subject of an aggregate's events.

    >>> subject(problem("matmul"))
    'events.problem.matmul'
    """
    return f"events.{aggregate}"


def history_subject(aggregate: str) -> str:
    """Return the filter that matches all events of an aggregate's history.

    No other aggregate has an agent's id and a run's id in these positions.

    >>> history_subject(report("a1", "r7")), history_subject(job("j1"))
    ('events.*.a1.r7', 'events.job.j1')
    """
    kind, _, ids = aggregate.partition(".")
    return f"events.*.{ids}" if kind in ("run", "report") else subject(aggregate)


def aggregate(subject: str) -> str:
    """Return the aggregate whose events are on a subject.

    >>> aggregate(subject(problem("matmul")))
    'problem.matmul'
    """
    return subject.removeprefix("events.")


def last_token(aggregate: str) -> str:
    """Return the id at the end of an aggregate's name.

    >>> last_token("run.a1.r7")
    'r7'
    """
    return aggregate.rpartition(".")[2]


# Subjects of messages that are not stored.
# The length of a GPU type's queue, from scheduler.
queue = partial(_name_with_id, "queue")


def progress(agent_id: str, submission_id: str) -> str:
    """Return the subject of an agent's progress on its run of a submission; not stored."""
    return _name("progress", agent_id, submission_id)


def agent_request(agent_id: str, request: str) -> str:
    """Return the subject of an agent's requests to the services; not stored."""
    return _name("agents", agent_id, request)


def reader_request(reader: str, request: str) -> str:
    """Return the subject of the requests of a user that services read the log for; not stored."""
    return _name("readers", reader, request)


def agent_inbox(agent_id: str) -> str:
    """Return the name of the durable consumer of an agent's runs."""
    return f"gpu-agent-{agent_id}"
