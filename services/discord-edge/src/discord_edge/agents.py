"""The commands of `/agents`: the agents that run submissions, and their queues."""

from discord import app_commands

from discord_edge.bot.interactions import (
    BotInteraction,
    Choices,
    Commands,
    name_choices,
    reply,
)
from discord_edge.bot.staff import (
    ADMIN,
    Number,
    Reason,
    defer_for_role,
    reply_with_lines,
    run_decision,
)
from discord_edge.leaderboards.tables import queue_line
from discord_edge.submissions.commands import complete_gpus
from discord_edge.wording import CHOICES_MAX, escaped, match_names
from shared.api.agents import Agent, Agents
from shared.api.queues import Job, QueueOfGpu, Queues

JOBS_SHOWN = 10
Id = app_commands.Range[str, 1, 64]
Every = app_commands.Range[int, 10, 30 * 86400]
Ratio = app_commands.Range[float, 1.001, 100.0]


async def complete_agents(interaction: BotInteraction, typed: str) -> Choices:
    """Complete the names of agents."""
    agents = await interaction.client.cache.get(None, Agents, "agents")
    ids = [agent.id for agent in agents.items] if agents else []
    return name_choices(match_names(typed, ids))


@app_commands.command(name="list", description="All agents and their states")
async def list_(interaction: BotInteraction) -> None:
    """List the agents."""
    api = await defer_for_role(interaction, ADMIN)
    agents = (await api.get(Agents, "admin", "agents")).items
    lines = [_agent_line(agent) for agent in agents]
    await reply_with_lines(interaction, lines, "No agent ever registered.")


@app_commands.command(name="drain", description="Give an agent no new jobs")
@app_commands.autocomplete(agent=complete_agents)
async def drain(interaction: BotInteraction, agent: Id, reason: Reason) -> None:
    """Let an agent finish its run and take no new ones."""
    await _command_agent(interaction, agent, "drain", reason, "gets no new jobs")


@app_commands.command(name="undrain", description="Let an agent work again")
@app_commands.autocomplete(agent=complete_agents)
async def undrain(interaction: BotInteraction, agent: Id, reason: Reason) -> None:
    """End a drain or a quarantine."""
    await _command_agent(interaction, agent, "release", reason, "works again")


@app_commands.command(name="quarantine", description="Give an agent only canaries")
@app_commands.autocomplete(agent=complete_agents)
async def quarantine(interaction: BotInteraction, agent: Id, reason: Reason) -> None:
    """Keep an agent away from participants' submissions."""
    await _command_agent(interaction, agent, "cordon", reason, "gets only canaries")


@app_commands.command(name="canary", description="Run a submission on every agent, repeatedly")
@app_commands.describe(
    submission="A ranked submission that passed",
    every_s="The interval in seconds",
    ratio_max="How many times slower an agent may be",
)
@app_commands.autocomplete(gpu=complete_gpus)
async def canary(
    interaction: BotInteraction,
    gpu: Id,
    submission: Number,
    every_s: Every = 3600,
    ratio_max: Ratio = 1.2,
) -> None:
    """Choose the submission that shows whether agents have become slower."""
    api = await defer_for_role(interaction, ADMIN)
    body = {"submission": submission, "every_s": float(every_s), "ratio_max": ratio_max}
    await api.request(object, "PUT", "admin", "pools", gpu, "canary", **body)
    agents = f"every agent with {escaped(gpu)}"
    await reply(interaction, f"**#{submission}** runs on {agents}, every {every_s} s.")


@app_commands.command(name="queue", description="The queue of each GPU type")
@app_commands.autocomplete(gpu=complete_gpus)
async def queue(interaction: BotInteraction, gpu: str | None = None) -> None:
    """Show each queue with its first jobs."""
    api = await defer_for_role(interaction, ADMIN)
    pools = (await api.get(Queues, "queue")).pools
    if gpu is not None:
        pools = [pool for pool in pools if pool.gpu.lower() == gpu.lower()]
    lines = []
    for pool in pools[:CHOICES_MAX]:
        lines.append(queue_line(pool.gpu, await api.get(QueueOfGpu, "queue", pool.gpu)))
        lines += [_job_line(job) for job in pool.forecast[:JOBS_SHOWN]]
    await reply_with_lines(interaction, lines, "No jobs are waiting, and no agents are working.")


async def _command_agent(
    interaction: BotInteraction, agent: str, command: str, reason: str, text: str
) -> None:
    api = await defer_for_role(interaction, ADMIN)
    note = await run_decision(api, "admin", "agents", agent.strip(), command, reason=reason)
    await reply(interaction, f"Agent **{escaped(agent)}** {text}.{note}")


def _agent_line(agent: Agent) -> str:
    state = "free" if agent.is_free else "busy" if agent.is_alive else "offline"
    reason = agent.standing_reason
    standing = agent.standing + (f": {escaped(str(reason))}" if reason else "")
    details = f"{escaped(agent.gpu)} · {state} · {standing}"
    return f"**{escaped(agent.id)}** · {details} · {agent.level}, {agent.tier}"


def _job_line(job: Job) -> str:
    number = f"#{job.number}" if job.number else "another participant's"
    wait = "" if job.eta_s is None else f", in about {job.eta_s:.0f} s"
    reason = f" ({escaped(str(job.why))})" if job.why else ""
    return f"{job.position}. {number}{wait}{reason}"


COMMANDS: Commands = (list_, drain, undrain, quarantine, canary, queue)
