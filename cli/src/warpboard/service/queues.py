"""Show queues, agents and quotas."""

from collections.abc import Sequence
from datetime import tzinfo

from shared.api.agents import Agent, Agents
from shared.api.queues import Depth, Job, Pool, Quantiles, Queues
from shared.api.submissions import Balance, Balances
from shared.errors import Refused
from shared.presentation.units import NO_VALUE, about_text, instant_text, one_line
from warpboard.domain.exit_codes import OK
from warpboard.domain.tables import Table
from warpboard.service.answers import show_answer
from warpboard.service.leaderboards import LeaderboardQuery, resolve_gpus
from warpboard.service.ports import Api, Screen

DAY_S = 86400


async def queue(api: Api, screen: Screen, gpu: str | None, *, as_json: bool) -> int:
    """Show each GPU type's queue and forecast. Raises Refused for an unknown type."""
    answer = await api.get(Queues, "queue")
    pools = [pool for pool in answer.value.pools if gpu is None or _is_same_gpu(pool.gpu, gpu)]
    if gpu is not None and not pools:
        raise Refused("unknown_gpu", f"no pool has the GPU type {gpu!r}", "--gpu")
    if as_json:
        document = answer.document
        for part in ("items", "pools") if gpu is not None else ():
            document[part] = [row for row in document[part] if _is_same_gpu(row["gpu"], gpu or "")]
        screen.json(document)
        return OK
    screen.table(pool_table(pools))
    for pool in pools:
        if pool.forecast:
            screen.table(forecast_table(pool.gpu, pool.forecast))
    return OK


def _is_same_gpu(gpu: str, name: str) -> bool:
    return gpu.lower() == name.lower()


async def agents(api: Api, screen: Screen, *, as_json: bool) -> int:
    """List every agent and its state."""
    answer = await api.get(Agents, "agents")
    return show_answer(screen, answer, agent_table(answer.value.items), as_json=as_json)


async def quota(api: Api, screen: Screen, query: LeaderboardQuery | None, *, as_json: bool) -> int:
    """Show what is left of the caller's quotas, of all or of one problem's."""
    if query is None:
        answers = [await api.get(Balances, "quota")]
    else:
        answers = [
            await api.get(Balances, "quota", problem=query.problem, gpu=gpu)
            for gpu in await resolve_gpus(api, query, are_open=True)
        ]
    balances = [balance for answer in answers for balance in answer.value.items]
    if as_json:
        screen.json({"items": [item for answer in answers for item in answer.document["items"]]})
    elif balances:
        screen.table(quota_table(balances))
    else:
        screen.say("no limit holds for you" + (" there" if query else ""))
    return OK


def quota_table(balances: Sequence[Balance], zone: tzinfo | None = None) -> Table:
    """List what is left of each limit."""
    rows = [
        (
            balance.bucket,
            str(balance.used),
            str(balance.limit),
            str(balance.remaining),
            window_text(balance.window_s),
            instant_text(balance.reset_at, zone),
        )
        for balance in balances
    ]
    return Table("quotas", ("bucket", "used", "limit", "left", "per", "resets"), rows)


def balance_text(balance: Balance, zone: tzinfo | None = None) -> str:
    """Describe what is left of one limit.

    >>> from datetime import UTC, datetime
    >>> counts = {"limit": 5, "used": 2, "remaining": 3}
    >>> reset_at = datetime(2026, 1, 2, tzinfo=UTC)
    >>> daily = Balance(bucket="p.CPU.ranked", **counts, window_s=86400, reset_at=reset_at)
    >>> balance_text(daily, UTC)
    '3 of 5 left of p.CPU.ranked per day, which resets at 2026-01-02 00:00:00'
    """
    remaining = f"{balance.remaining} of {balance.limit} left of {balance.bucket}"
    reset = f"which resets at {instant_text(balance.reset_at, zone)}"
    return f"{remaining} per {window_text(balance.window_s)}, {reset}"


def window_text(window_s: float) -> str:
    """Name the length of a quota's window.

    >>> window_text(86400), window_text(3600), window_text(172800), window_text(90)
    ('day', 'hour', '2 days', '90 s')
    """
    for length, name in ((DAY_S, "day"), (3600, "hour"), (60, "minute")):
        count, remainder = divmod(window_s, length)
        if count >= 1 and not remainder:
            return name if count == 1 else f"{count:.0f} {name}s"
    return f"{window_s:g} s"


def pool_table(pools: Sequence[Pool]) -> Table:
    """List the queue of each GPU type."""
    rows = [
        (
            pool.gpu,
            str(pool.waiting),
            _count_text(pool.agents_free),
            _count_text(pool.agents_busy),
            *_run_texts(pool.run_s),
            f"paused: {one_line(pool.paused)}" if pool.paused is not None else "open",
        )
        for pool in pools
    ]
    columns = ("GPU type", "waiting", "free", "busy", "run usually", "9 of 10 runs", "state")
    return Table("queues", columns, rows)


def _run_texts(run_s: Quantiles | None) -> tuple[str, str]:
    if run_s is None:
        return NO_VALUE, NO_VALUE
    return about_text(run_s.p50 or None), about_text(run_s.p90 or None)


def _count_text(number: int | None) -> str:
    return NO_VALUE if number is None else str(number)


def forecast_table(gpu: str, waiting: Sequence[Job]) -> Table:
    """List the submissions that wait for a GPU type, in order, with their forecasts."""
    rows = [
        (
            str(submission.position),
            str(submission.number or submission.submission or NO_VALUE),
            about_text(submission.eta_s),
            about_text(submission.eta_p90_s),
            one_line(submission.why or ""),
        )
        for submission in waiting
    ]
    columns = ("place", "number", "begins in", "9 of 10 within", "why")
    return Table(f"waiting for {gpu}", columns, rows)


def agent_table(registered: Sequence[Agent]) -> Table:
    """List the registered agents and their states."""
    rows = [
        (
            agent.id,
            agent.gpu,
            agent.level or NO_VALUE,
            agent.tier or NO_VALUE,
            " ".join(agent.modes) or NO_VALUE,
            _health(agent),
        )
        for agent in registered
    ]
    return Table("agents", ("agent", "GPU type", "isolation", "tier", "modes", "state"), rows)


def _health(agent: Agent) -> str:
    """Describe an agent's state, and what holds it back."""
    held = held_back(agent)
    if not agent.is_alive:
        return f"silent, {held}" if held else "silent"
    unknown = ", not enrolled" if agent.standing == "not_enrolled" else ""
    return held or ("free" if agent.is_free else "busy") + unknown


def held_back(agent: Agent) -> str:
    """Return why an agent takes no work; empty if it may."""
    if agent.standing not in ("", "enrolled", "not_enrolled"):
        return f"{agent.standing}: {one_line(agent.standing_reason or NO_VALUE)}"
    return f"in quarantine: {one_line(agent.quarantine)}" if agent.quarantine else ""


def queue_table(counts: Sequence[Depth], zone: tzinfo | None = None) -> Table:
    """List how many submissions are open."""
    rows = [
        (count.gpu, count.state, str(count.submissions), instant_text(count.oldest_at, zone))
        for count in counts
    ]
    return Table("queue", ("GPU type", "state", "submissions", "oldest"), rows)
