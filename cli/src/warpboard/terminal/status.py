"""Commands that show the state of the platform: processes, agents, queues and quotas."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

import click

from shared.api.agents import Agent, Agents
from shared.api.platform import DeadLetters
from shared.api.queues import Depth, IntakeStatus, Job, Pool, Quantiles, Queues
from shared.api.submissions import Balance, Balances
from shared.errors import Refused
from shared.presentation.units import NO_VALUE, about_text, count_text, instant_text, one_line
from warpboard.domain.exit_codes import INFRASTRUCTURE
from warpboard.domain.tables import Table
from warpboard.service.answers import resolve_gpus, window_text
from warpboard.service.context import AppContext
from warpboard.service.machine import Row
from warpboard.service.ports import Api, Unavailable
from warpboard.terminal import options
from warpboard.terminal.command_types import api_command, local_command


@local_command("status --json", access=options.viewer_options)
async def status(context: AppContext) -> int:
    """Show processes, agents, queues and what is held back.

    Operators also see dead letters. Exit code 3 if the platform is not up.
    """
    place = context.place
    rows = () if place.url else context.machine.describe(context.folder(place))
    if rows and not context.as_json:
        context.screen.table(process_table(rows))
    processes = [row._asdict() for row in rows]
    try:
        async with context.look(place) as api:
            agents = await api.get(Agents, "agents")
            queues = await api.get(Queues, "queue")
            intake = await api.get(IntakeStatus, "intake")
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
        "dead_letters": dead_letters.document["items"] if dead_letters else None,
    }
    held = list(held_back_lines(paused, queues.value, agents.value.items))
    if dead_letters and dead_letters.value.items:
        count = count_text(len(dead_letters.value.items), "event")
        held.append(f"{count} given up by their consumers: warpboard admin deadletter list")
    tables = [
        agent_table(agents.value.items),
        pool_table(queues.value.pools),
        queue_table(queues.value.items),
    ]
    return context.show(document, [*tables, *(held or ["nothing is held back"])])


def process_table(rows: Sequence[Row]) -> Table:
    """List the processes of a platform."""
    cells = [
        (row.name, row.state, str(row.pid or NO_VALUE), str(row.restarts), row.address)
        for row in rows
    ]
    return Table("processes", ("process", "state", "pid", "restarts", "address"), cells)


def held_back_lines(intake: str | None, queues: Queues, agents: Sequence[Agent]) -> Iterator[str]:
    """Describe everything that operators or the platform hold back, one line each."""
    if intake is not None:
        yield f"intake is paused: {one_line(intake)}"
    for pool in queues.pools:
        if pool.paused is not None:
            yield f"pool {pool.gpu} is paused: {one_line(pool.paused)}"
    for agent in agents:
        if why := held_back(agent):
            yield f"agent {agent.id} is {why}"
    if queues.parked is not None:
        error = one_line(queues.parked.error)
        yield f"the read models stand before event {queues.parked.seq}: {error}"


@api_command(
    "submission queue --gpu H200",
    parameters=(click.option("--gpu", metavar="TYPE", help="Only this GPU type."),),
    access=options.viewer_options,
)
async def queue(context: AppContext, api: Api, gpu: str | None) -> int:
    """Show who waits for each GPU type, how long, and why."""
    answer = await api.get(Queues, "queue")
    pools, document = answer.value.pools, answer.document
    if gpu is not None:
        pools = [pool for pool in pools if pool.gpu.lower() == gpu.lower()]
        if not pools:
            raise Refused("unknown_gpu", f"no pool has the GPU type {gpu!r}", "--gpu")
        for part in ("items", "pools"):
            document[part] = [row for row in document[part] if row["gpu"].lower() == gpu.lower()]
    forecasts = [forecast_table(pool.gpu, pool.forecast) for pool in pools if pool.forecast]
    return context.show(document, [pool_table(pools), *forecasts])


@api_command("agent list", access=options.viewer_options)
async def list_agents(context: AppContext, api: Api) -> int:
    """List the agents, their states, and why they are held back."""
    answer = await api.get(Agents, "agents")
    return context.show(answer.document, [agent_table(answer.value.items)])


@local_command(
    "submission quota matmul --gpu CPU",
    parameters=(
        click.argument("problem", required=False, type=options.SLUG),
        click.option("--gpu", metavar="TYPE", help="GPU type; default: all of the problem's."),
    ),
    access=options.platform_options,
)
async def quota(context: AppContext, problem: str | None, gpu: str | None) -> int:
    """Show what is left of your quotas.

    With a PROBLEM, only of those that count for it.
    """
    if gpu and not problem:
        raise click.UsageError("--gpu needs a PROBLEM")
    async with context.api(context.place) as api:
        if problem:
            answers = [
                await api.get(Balances, "quota", problem=problem, gpu=name)
                for name in await resolve_gpus(api, problem, gpu, are_open=True)
            ]
        else:
            answers = [await api.get(Balances, "quota")]
    balances = [balance for answer in answers for balance in answer.value.items]
    empty = "no limit holds for you" + (" there" if problem else "")
    document = {"items": [item for answer in answers for item in answer.document["items"]]}
    return context.show(document, [quota_table(balances) if balances else empty])


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


def pool_table(pools: Sequence[Pool]) -> Table:
    """List the queue of each GPU type."""
    rows = [
        (
            pool.gpu,
            str(pool.waiting),
            NO_VALUE if pool.agents_free is None else str(pool.agents_free),
            NO_VALUE if pool.agents_busy is None else str(pool.agents_busy),
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
