"""Names in NATS: aggregates, subjects, streams and buckets."""

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


def _aggregate_name(aggregate: str, *ids: str) -> str:
    for token in ids:
        if not _TOKEN.match(token):
            raise ValueError(f"{token!r} is not an id: expected 1 to 64 of A-Z a-z 0-9 _ and -")
    return ".".join((aggregate, *ids))


def problem(slug: str) -> str:
    """Return the aggregate of a problem."""
    return _aggregate_name("problem", slug)


def submission(submission_id: str) -> str:
    """Return the aggregate of a submission."""
    return _aggregate_name("submission", submission_id)


def job(job_id: str) -> str:
    """Return the aggregate of a job."""
    return _aggregate_name("job", job_id)


def run(agent_id: str, run_id: str) -> str:
    """Return the aggregate of a run's orders, which only scheduler may write."""
    return _aggregate_name("run", agent_id, run_id)


def report(agent_id: str, run_id: str) -> str:
    """Return the aggregate of an agent's reports on a run, which only that agent may write."""
    return _aggregate_name("report", agent_id, run_id)


def runs(agent_id: str) -> str:
    """Return the common prefix of an agent's run aggregates, without the final dot.

    >>> runs("a1")
    'run.a1'
    """
    return _aggregate_name("run", agent_id)


def history_of(agg: str) -> str:
    """Return the aggregate that names a history: a run's orders and reports are one history.

    >>> history_of(report("a1", "r7")), history_of(job("j1"))
    ('run.a1.r7', 'job.j1')
    """
    kind, _, ids = agg.partition(".")
    return f"run.{ids}" if kind == "report" else agg


def agent(agent_id: str) -> str:
    """Return the aggregate of an agent."""
    return _aggregate_name("agent", agent_id)


def account(account_id: str) -> str:
    """Return the aggregate of a participant's account."""
    return _aggregate_name("account", account_id)


def quota(account_id: str) -> str:
    """Return the aggregate of an account's quotas; `default` has the limits of everybody."""
    return _aggregate_name("quota", account_id)


def moderation(submission_id: str) -> str:
    """Return the aggregate of decisions about a submission after its end."""
    return _aggregate_name("moderation", submission_id)


def invite(invite_id: str) -> str:
    """Return the aggregate of an invite to closed leaderboards."""
    return _aggregate_name("invite", invite_id)


def webhook(webhook_id: str) -> str:
    """Return the aggregate of a webhook."""
    return _aggregate_name("webhook", webhook_id)


def pool(gpu: str) -> str:
    """Return the aggregate of a pool, the agents of one GPU type."""
    return _aggregate_name("pool", gpu)


def ranking(slug: str, gpu: str) -> str:
    """Return the aggregate of a leaderboard's records."""
    return _aggregate_name("ranking", slug, gpu)


def rejudge(rejudge_id: str) -> str:
    """Return the aggregate of a rejudge."""
    return _aggregate_name("rejudge", rejudge_id)


def duel(duel_id: str) -> str:
    """Return the aggregate of a duel."""
    return _aggregate_name("duel", duel_id)


def confirmation(confirmation_id: str) -> str:
    """Return the aggregate of a confirmation."""
    return _aggregate_name("confirmation", confirmation_id)


def audit(topic: str) -> str:
    """Return the aggregate of a platform matter, such as `seal` or `platform`."""
    return _aggregate_name("audit", topic)


def redriven(consumer: str) -> str:
    """Return the aggregate of events that an operator redrove to a durable consumer.

    >>> redriven("gpu-agent-a1")
    'audit.redriven.gpu-agent-a1'
    """
    # It contains an agent's id, so it can be longer than an id; durable names have no dots.
    assert consumer.replace("-", "").replace("_", "").isalnum(), f"{consumer!r} is not a consumer"
    return f"audit.redriven.{consumer}"


def subject(agg: str) -> str:
    """Return the subject of an aggregate's events.

    >>> subject(problem("matmul"))
    'events.problem.matmul'
    """
    return f"events.{agg}"


def history_subject(agg: str) -> str:
    """Return the filter that matches all events of an aggregate's history.

    No other aggregate has an agent's id and a run's id in these positions.

    >>> history_subject(report("a1", "r7")), history_subject(job("j1"))
    ('events.*.a1.r7', 'events.job.j1')
    """
    kind, _, ids = agg.partition(".")
    return f"events.*.{ids}" if kind in ("run", "report") else subject(agg)


def aggregate(subject: str) -> str:
    """Return the aggregate whose events are on a subject.

    >>> aggregate(subject(problem("matmul")))
    'problem.matmul'
    """
    return subject.removeprefix("events.")


def last_token(agg: str) -> str:
    """Return the id at the end of an aggregate's name.

    >>> last_token("run.a1.r7")
    'r7'
    """
    return agg.rpartition(".")[2]


def progress(submission_id: str) -> str:
    """Return the subject on which an agent reports a run's progress; not stored."""
    return _aggregate_name("progress", submission_id)


def queue(gpu: str) -> str:
    """Return the subject on which scheduler reports a GPU type's queue length; not stored."""
    return _aggregate_name("queue", gpu)


def agent_request(agent_id: str, request: str) -> str:
    """Return the subject of an agent's requests to the services; not stored."""
    return _aggregate_name("agents", agent_id, request)


def agent_inbox(agent_id: str) -> str:
    """Return the name of the durable consumer of an agent's runs."""
    return f"gpu-agent-{agent_id}"
