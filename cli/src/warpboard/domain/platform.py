"""What operators are told of a platform on their machine."""

from collections.abc import Iterator, Sequence

from warpboard.domain.answers import Agent
from warpboard.domain.doctor import missing_lines
from warpboard.domain.units import NOTHING, one_line

CPU = "CPU"


def facts(agents: Sequence[Agent]) -> Iterator[str]:
    """What to know before submitting, from what the living agents offer."""
    alive = [agent for agent in agents if agent.is_alive]
    if not alive:
        yield "no agent is alive yet: submissions wait"
    if any(agent.gpu == CPU for agent in alive):
        yield "no GPU: the agent offers the device cpu, shown as GPU type CPU"
    for agent in alive:
        yield from _offer(agent)


def begin(url: str) -> Iterator[str]:
    """Where everything is for who comes for the first time, on this machine."""
    yield f"the API: {url}/docs; accounts and tokens for others: {url}/login"
    yield "to begin, in another terminal: warpboard problem publish problems/vectoradd, then"
    yield "  warpboard submit FILE --leaderboard NAME --mode test (here that takes no login)"


def _offer(agent: Agent) -> Iterator[str]:
    """What an agent isolates by, and what it lacks, with the mend."""
    level = agent.level or "unknown"
    warning = ": run only code you trust" if level in ("none", "weak") else ""
    yield f"agent {agent.id}: isolation {level}, timing tier {agent.tier or 'unknown'}{warning}"
    yield from (f"  {line}" for line in missing_lines(agent.missing))
    if agent.toolchains:
        tools = (f"{name} {one_line(version, 40)}" for name, version in agent.toolchains.items())
        yield f"  toolchains: {', '.join(tools)}"
    if agent.quarantine:
        yield f"  in quarantine: {one_line(agent.quarantine)}"
    if "ranked" not in agent.modes:
        reason = agent.details.get("ranked_not_offered", "it does not say why")
        yield f"  mode ranked is not offered: {one_line(reason)}"


def pid_text(pid: int | None) -> str:
    """A process number, if there is one."""
    return NOTHING if pid is None else str(pid)
