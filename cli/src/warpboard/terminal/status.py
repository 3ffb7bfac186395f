"""Commands that show the state of the platform: processes, agents, queues and quotas."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

import click

from shared.api.agents import Agent, Agents
from shared.api.fields import parse_response
from shared.api.moderation import EventRange, LogScrub
from shared.api.queues import DeadLetters, Depth, IntakeStatus, Job, Pool, Queues
from shared.api.quotas import Balances
from shared.api_client import Unavailable
from shared.clock import now
from shared.errors import Refused
from shared.health import PAGE, name_ranges
from shared.presentation.report_parts import (
    QueuePlaces,
    agent_state_text,
    busy_pools,
    current_runs_text,
    group_jobs,
    held_back_text,
    launcher_label,
    launcher_usage,
    list_launchers,
    open_submissions_text,
)
from shared.presentation.units import (
    about_text,
    count_text,
    instant_text,
    one_line,
    seconds_text,
)
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.demand import Offer, offer_exit_code, offer_lines
from warpboard.domain.output import INFRASTRUCTURE, Table, make_table
from warpboard.processes.services import ProcessRow, describe
from warpboard.service.answers import resolve_gpus, window_text
from warpboard.terminal import options
from warpboard.terminal.options import api_command, local_command

ALL = click.option(
    *("--all", "is_all"),
    is_flag=True,
    help="Include idle GPU types without agents, and the platform's own baselines.",
)


@local_command("status --json", parameters=(ALL, options.WIDE), access=options.VIEWER)
async def status(context: AppContext, *, is_all: bool) -> int:
    """Show processes, agents, queues, and what is paused or held.

    Operators also see dead letters. Exit code 3 if the platform is not up.
    """
    rows = [] if context.place.url else describe(context.folder)
    if rows and not context.as_json:
        context.screen.table(process_table(rows))
    processes = [row._asdict() for row in rows]
    try:
        async with context.viewer_api() as api:
            agents = await api.get(Agents, "agents")
            queues = await api.get(Queues, "queue")
            intake = await api.get(IntakeStatus, "intake")
            scrub = await api.get(LogScrub, "audit", "scrub")
            try:
                dead_letters = await api.get(DeadLetters, "admin", "deadletters")
            except Refused:  # Only operators see them.
                dead_letters = None
    except Unavailable as trouble:
        reason = str(trouble)
        context.show({"is_up": False, "reason": reason, "processes": processes}, [reason])
        return INFRASTRUCTURE
    queue, paused = queues.document, intake.value.paused
    document = {
        "is_up": True,
        "processes": processes,
        "agents": agents.document["items"],
        "queue": queue["items"],
        "pools": queue["pools"],
        "parked": queue["parked"],
        "intake_paused": paused,
        "scrub": scrub.document,
        "dead_letters": dead_letters.document["items"] if dead_letters else None,
    }
    held = list(held_back_lines(paused, queues.value, agents.value.items))
    if dead_letters and dead_letters.value.items:
        count = count_text(len(dead_letters.value.items), "event")
        held.append(f"{count} given up by their consumers: warpboard admin deadletter list")
    pools = queues.value.pools if is_all else busy_pools(queues.value.pools)
    tables = [agent_table(agents.value.items), pool_table(pools), *launcher_table(pools)]
    tables.append(queue_table(queues.value.items))
    note = hidden_pools_text(len(queues.value.pools) - len(pools))
    lines = [*scrub_lines(scrub.value), *(held or ["nothing is paused or held"])]
    return context.show(document, [*tables, *lines], note)


def process_table(rows: Sequence[ProcessRow]) -> Table:
    """List the processes of a platform."""
    names = ("process", "state", "pid", "restarts", "address")
    named_rows = [dict(zip(names, row, strict=True)) for row in rows]
    return make_table("processes", named_rows, extra=("restarts", "pid"))


def held_back_lines(intake: str | None, queues: Queues, agents: Sequence[Agent]) -> Iterator[str]:
    """Describe everything that is paused or held, one line each."""
    if intake is not None:
        yield f"intake is paused: {one_line(intake)}"
    for pool in queues.pools:
        if pool.paused is not None:
            yield f"pool {pool.gpu} is paused: {one_line(pool.paused)}"
    for agent in agents:
        if why := held_back_text(agent):
            yield f"agent {agent.id} is {why}"
    if queues.parked is not None:
        error = one_line(queues.parked.error)
        yield f"the read models stopped before event {queues.parked.seq}: {error}"


def scrub_lines(scrub: LogScrub) -> Iterator[str]:
    """Describe the last comparison of the log with its archive, and what is wrong.

    >>> nothing = {"damaged_events": 0, "damaged": [], "archive_damaged": [], "seq": 0}
    >>> never = LogScrub(began_at=None, ended_at=None, ended_seq=0, **nothing)
    >>> list(scrub_lines(never))
    ['the log was not compared with its archive yet']
    """
    if scrub.ended_at is None:
        yield "the log was not compared with its archive yet"
    else:
        events = count_text(scrub.ended_seq, "event")
        result = "damaged" if scrub.damaged or scrub.archive_damaged else "nothing is wrong"
        at = instant_text(scrub.ended_at)
        yield f"the log was compared with its archive until {at}: {events}, {result}"
    if scrub.damaged:
        yield f"LOG DAMAGED at events {_events_text(scrub.damaged)}: see {PAGE}"
    if scrub.archive_damaged:
        yield f"ARCHIVE DAMAGED at events {_events_text(scrub.archive_damaged)}: see {PAGE}"


def _events_text(ranges: Sequence[EventRange]) -> str:
    return name_ranges([(stretch.first, stretch.last) for stretch in ranges])


@api_command(
    "submission queue --gpu H200",
    parameters=(
        click.option("--gpu", metavar="TYPE", help="Only this GPU type."),
        ALL,
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def queue(context: AppContext, api: Api, gpu: str | None, *, is_all: bool) -> int:
    """Show who waits for each GPU type, how long, and why.

    Without --all, the platform's own baselines in a row are one line, and GPU types without agents
    for which nothing waits are left out. JSON has everything.
    """
    answer = await api.get(Queues, "queue")
    pools, document = answer.value.pools, answer.document
    hidden_count = 0
    if gpu is not None:
        pools = [pool for pool in pools if pool.gpu.lower() == gpu.lower()]
        if not pools:
            raise Refused("unknown_gpu", f"no pool has the GPU type {gpu!r}", "--gpu")
        for part in ("items", "pools"):
            document[part] = [row for row in document[part] if row["gpu"].lower() == gpu.lower()]
    elif not is_all:
        pools = busy_pools(pools)
        hidden_count = len(answer.value.pools) - len(pools)
    forecasts = [
        forecast_table(pool.gpu, pool.forecast, is_all=is_all) for pool in pools if pool.forecast
    ]
    launchers = launcher_table(pools)
    note = hidden_pools_text(hidden_count)
    return context.show(document, [pool_table(pools), *launchers, *forecasts], note)


def hidden_pools_text(count: int) -> str:
    """Describe how many pools are not shown; empty for none."""
    if not count:
        return ""
    types = count_text(count, "GPU type")
    return f"{types} without agents or waiting submissions left out: --all shows everything"


@api_command("agent list", parameters=(options.WIDE,), access=options.VIEWER)
async def list_agents(context: AppContext, api: Api) -> int:
    """List the agents: their states, what they run, and why they are held."""
    answer = await api.get(Agents, "agents")
    return context.show(answer.document, [agent_table(answer.value.items)])


@local_command("agent doctor --json")
def doctor(context: AppContext) -> int:
    """Test every wall, launcher and toolchain here.

    Exit code 0 if isolation is strong, else 1.
    """
    answer = context.harness.offer()
    offer = parse_response(answer, Offer)
    context.show(answer, offer_lines(offer))
    return offer_exit_code(offer)


@local_command(
    "submission quota matmul --gpu CPU",
    parameters=(
        click.argument("problem", required=False, type=options.SLUG),
        click.option("--gpu", metavar="TYPE", help="GPU type; default: all of the problem's."),
        options.WIDE,
    ),
    access=options.PLATFORM,
)
async def quota(context: AppContext, problem: str | None, gpu: str | None) -> int:
    """Show your quotas, and how many submissions are open.

    With a PROBLEM, only the quotas that count for it. In a contest you or your team also have a
    quota for each problem over the whole phase.
    """
    if gpu and not problem:
        raise click.UsageError("--gpu needs a PROBLEM")
    async with context.api() as api:
        if problem:
            answers = [
                await api.get(Balances, "quota", problem=problem, gpu=name)
                for name in await resolve_gpus(api, problem, gpu, are_open=True)
            ]
        else:
            answers = [await api.get(Balances, "quota")]
    # The quotas of a contest are in the answer for each GPU type.
    balances = {item.bucket: item for answer in answers for item in answer.value.items}
    rows = [
        {
            "bucket": balance.bucket,
            "used": balance.used,
            "limit": balance.limit,
            "left": balance.remaining,
            "per": "phase" if balance.contest else window_text(balance.window_s),
            "resets": balance.reset_at,
            "contest": balance.contest,
        }
        for balance in balances.values()
    ]
    empty = "no quota applies to you" + (" there" if problem else "")
    items = {item["bucket"]: item for answer in answers for item in answer.document["items"]}
    document = answers[0].document | {"items": list(items.values())}
    open_text = open_submissions_text(answers[0].value.open_submissions)
    table = make_table("quotas", rows, optional=("contest",))
    return context.show(document, [table if rows else empty, open_text])


def pool_table(pools: Sequence[Pool]) -> Table:
    """List the queue of each GPU type."""
    rows = [
        {
            "GPU type": pool.gpu,
            "waiting": pool.waiting,
            "free": pool.slots_free,
            "busy": pool.slots_busy,
            "median run": _run_text(pool.run_s.p50) if pool.run_s else None,
            "90 % end within": _run_text(pool.run_s.p90) if pool.run_s else None,
            "state": f"paused: {one_line(pool.paused)}" if pool.paused is not None else "open",
        }
        for pool in pools
    ]
    return make_table("queues", rows, extra=("90 % end within", "median run", "busy"))


def _run_text(duration_s: float | None) -> str | None:
    """Format how long runs take; None if none has ended yet."""
    return seconds_text(duration_s) if duration_s else None


def launcher_table(pools: Sequence[Pool]) -> list[Table]:
    """List the launchers with the agents that they run and what these cost; empty for none."""
    rows = []
    for launcher, gpus in list_launchers(pools):
        agents, cost = launcher_usage(launcher)
        row = {
            "launcher": launcher_label(launcher),
            "kind": launcher.kind,
            "GPU types": ", ".join(gpus),
        }
        rows.append(row | {"agents": agents, "cost today": cost})
    return [make_table("launchers", rows)] if rows else []


def forecast_table(gpu: str, jobs: Sequence[Job], *, is_all: bool) -> Table:
    """List the jobs that wait for a GPU type, in order, with their forecasts."""
    lines = [QueuePlaces(job.position, job.position, job) for job in jobs]
    rows = [
        {
            "place": line.text,
            "number": line.job.number or line.job.submission or line.baselines_text or None,
            "class": line.job.queue_class,
            "begins in": about_text(line.job.eta_s),
            "90 % begin within": about_text(line.job.eta_p90_s),
            "why": one_line(line.job.why or ""),
        }
        for line in (lines if is_all else group_jobs(jobs))
    ]
    return make_table(f"waiting for {gpu}", rows, extra=("90 % begin within", "class"))


def agent_table(registered: Sequence[Agent]) -> Table:
    """List the registered agents, their states, and what they run."""
    at = now()
    rows = [
        {
            "agent": agent.id,
            "GPU type": agent.gpu,
            "isolation": agent.level or None,
            "tier": agent.tier or None,
            "modes": agent.modes,
            "state": agent_state_text(agent),
            "runs": current_runs_text(agent, at) or None,
        }
        for agent in registered
    ]
    return make_table("agents", rows, optional=("runs",), extra=("modes", "tier", "isolation"))


def queue_table(counts: Sequence[Depth], zone: tzinfo | None = None) -> Table:
    """List how many submissions are open."""
    rows = [
        {
            "GPU type": count.gpu,
            "state": count.state,
            "submissions": count.submissions,
            "oldest": count.oldest_at,
        }
        for count in counts
    ]
    return make_table("queue", rows, zone)
