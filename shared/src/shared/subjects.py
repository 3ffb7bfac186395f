"""Names on the wire: aggregates, subjects, streams and buckets."""

import re

STREAM = "EVENTS"
BLOBS = "BLOBS"
LARGE = "LARGE"
LEASES = "LEASES"
DEADLETTERS = "DEADLETTERS"
SNAPSHOTS = "SNAPSHOTS"
UPLOADS = "UPLOADS"
WATERMARKS = "WATERMARKS"

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def _named(aggregate: str, *ids: str) -> str:
    for token in ids:
        if not _TOKEN.match(token):
            raise ValueError(f"{token!r} is no id: 1 to 64 of A-Z a-z 0-9 _ and -")
    return ".".join((aggregate, *ids))


def problem(slug: str) -> str:
    """The aggregate of a problem."""
    return _named("problem", slug)


def submission(submission_id: str) -> str:
    """The aggregate of a submission."""
    return _named("submission", submission_id)


def job(job_id: str) -> str:
    """The aggregate of a job."""
    return _named("job", job_id)


def run(agent_id: str, run_id: str) -> str:
    """The aggregate of the orders of a run, which the scheduler alone may write."""
    return _named("run", agent_id, run_id)


def report(agent_id: str, run_id: str) -> str:
    """The aggregate of what an agent reports of a run, which that agent alone may write."""
    return _named("report", agent_id, run_id)


def runs(agent_id: str) -> str:
    """What the aggregates of all of an agent's runs begin with, before a dot.

    >>> runs("a1")
    'run.a1'
    """
    return _named("run", agent_id)


def history_of(agg: str) -> str:
    """The aggregate that names a history: a run's orders and reports are one.

    >>> history_of(report("a1", "r7")), history_of(job("j1"))
    ('run.a1.r7', 'job.j1')
    """
    kind, _, ids = agg.partition(".")
    return f"run.{ids}" if kind == "report" else agg


def agent(agent_id: str) -> str:
    """The aggregate of an agent."""
    return _named("agent", agent_id)


def account(account_id: str) -> str:
    """The aggregate of a participant's account."""
    return _named("account", account_id)


def quota(account_id: str) -> str:
    """The aggregate of an account's quotas; `default` holds the limits of everybody."""
    return _named("quota", account_id)


def moderation(submission_id: str) -> str:
    """The aggregate of what was decided about a submission after its end."""
    return _named("moderation", submission_id)


def invite(invite_id: str) -> str:
    """The aggregate of an invite to closed leaderboards."""
    return _named("invite", invite_id)


def webhook(webhook_id: str) -> str:
    """The aggregate of an address that is told of events."""
    return _named("webhook", webhook_id)


def pool(gpu: str) -> str:
    """The aggregate of the agents of one GPU type."""
    return _named("pool", gpu)


def ranking(slug: str, gpu: str) -> str:
    """The aggregate of a leaderboard's records."""
    return _named("ranking", slug, gpu)


def rejudge(rejudge_id: str) -> str:
    """The aggregate of a rejudge."""
    return _named("rejudge", rejudge_id)


def duel(duel_id: str) -> str:
    """The aggregate of a duel."""
    return _named("duel", duel_id)


def confirmation(confirmation_id: str) -> str:
    """The aggregate of a confirmation."""
    return _named("confirmation", confirmation_id)


def audit(topic: str) -> str:
    """The aggregate of one of the platform's own matters, such as `seal` or `platform`."""
    return _named("audit", topic)


def redriven(consumer: str) -> str:
    """The aggregate of what an operator had handed over again to a durable consumer.

    >>> redriven("gpu-agent-a1")
    'audit.redriven.gpu-agent-a1'
    """
    # Longer than an id, for it has an agent's id in it; as durable names it has no dots.
    assert consumer.replace("-", "").replace("_", "").isalnum(), f"{consumer!r} is no consumer"
    return f"audit.redriven.{consumer}"


def subject(agg: str) -> str:
    """The subject on which an aggregate's events lie.

    >>> subject(problem("matmul"))
    'events.problem.matmul'
    """
    return f"events.{agg}"


def history_subject(agg: str) -> str:
    """The filter of all events of an aggregate's history.

    No other aggregate has an agent's id and a run's id in these places.

    >>> history_subject(report("a1", "r7")), history_subject(job("j1"))
    ('events.*.a1.r7', 'events.job.j1')
    """
    kind, _, ids = agg.partition(".")
    return f"events.*.{ids}" if kind in ("run", "report") else subject(agg)


def aggregate(subject: str) -> str:
    """The aggregate whose events lie on a subject.

    >>> aggregate(subject(problem("matmul")))
    'problem.matmul'
    """
    return subject.removeprefix("events.")


def last_token(agg: str) -> str:
    """The id at the end of an aggregate's name.

    >>> last_token("run.a1.r7")
    'r7'
    """
    return agg.rpartition(".")[2]


def progress(submission_id: str) -> str:
    """Where an agent tells of the stage at hand; not kept."""
    return _named("progress", submission_id)


def queue(gpu: str) -> str:
    """Where scheduler tells how long a GPU type's queue is; not kept."""
    return _named("queue", gpu)


def agent_request(agent_id: str, what: str) -> str:
    """Where an agent asks the services for what it may not ask JetStream; not kept."""
    return _named("agents", agent_id, what)


def agent_inbox(agent_id: str) -> str:
    """The durable consumer of an agent's runs."""
    return f"gpu-agent-{agent_id}"
