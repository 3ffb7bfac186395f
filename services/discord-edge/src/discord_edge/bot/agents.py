"""`/agents …`: the machines that run submissions, and what waits for them."""

from typing import Any

from discord import app_commands

from discord_edge.bot.asking import Here, say
from discord_edge.bot.staff import Number, Reason, begun, decided, done, hidden, told
from discord_edge.bot.submitting import gpus
from discord_edge.domain import tables
from discord_edge.domain.wishes import GPUS_MAX, matching
from discord_edge.domain.wording import escaped

ADMIN = "admin"
JOBS_SHOWN = 10
Id = app_commands.Range[str, 1, 64]
Every = app_commands.Range[int, 10, 30 * 86400]
Ratio = app_commands.Range[float, 1.001, 100.0]


async def known(here: Here, typed: str) -> list[app_commands.Choice[str]]:
    """The agents by their names."""
    items = (await here.client.memory.get(None, "agents")).get("items", [])
    names = matching(typed, [str(one["id"]) for one in items])
    return [app_commands.Choice(name=one, value=one) for one in names]


class Agents(app_commands.Group):
    """The commands about machines, hidden from who does not run the server."""

    def __init__(self) -> None:
        about = "The machines that run submissions"
        super().__init__(
            name="agents", description=about, guild_only=True, default_permissions=hidden()
        )

    @app_commands.command(name="list", description="Which agents there are, and how they are")
    async def list_(self, here: Here) -> None:
        """The agents."""
        user = await begun(here, ADMIN)
        items = (await here.client.api.get(user, "admin", "agents"))["items"]
        await told(here, [_agent(one) for one in items], "No agent ever registered.")

    @app_commands.command(name="drain", description="Give an agent nothing more to do")
    @app_commands.autocomplete(agent=known)
    async def drain(self, here: Here, agent: Id, reason: Reason) -> None:
        """Let an agent finish what it has."""
        await _treated(here, agent, ("drain", reason), "gets nothing more to do")

    @app_commands.command(name="undrain", description="Let an agent work again")
    @app_commands.autocomplete(agent=known)
    async def undrain(self, here: Here, agent: Id, reason: Reason) -> None:
        """Lift a drain and a quarantine."""
        await _treated(here, agent, ("release", reason), "works again")

    @app_commands.command(name="quarantine", description="Give an agent canaries alone")
    @app_commands.autocomplete(agent=known)
    async def quarantine(self, here: Here, agent: Id, reason: Reason) -> None:
        """Keep an agent from everybody's submissions."""
        await _treated(here, agent, ("cordon", reason), "gets canaries alone")

    @app_commands.command(name="canary", description="Run a submission on every agent, repeatedly")
    @app_commands.describe(
        submission="A ranked one that passed",
        every_s="How often, in seconds",
        ratio_max="How many times as slow an agent may be",
    )
    @app_commands.autocomplete(gpu=gpus)
    async def canary(
        self, here: Here, gpu: Id, submission: Number, every_s: Every = 3600, ratio_max: Ratio = 1.2
    ) -> None:
        """Choose what shows that an agent is well."""
        user = await begun(here, ADMIN)
        said = {"submission": submission, "every_s": float(every_s), "ratio_max": ratio_max}
        await done(here, user, "PUT", "admin", "pools", gpu, "canary", **said)
        often = f"every {every_s} s"
        await say(here, f"**#{submission}** runs on every agent with {escaped(gpu)}, {often}.")

    @app_commands.command(name="queue", description="What waits for each GPU type")
    @app_commands.autocomplete(gpu=gpus)
    async def queue(self, here: Here, gpu: str | None = None) -> None:
        """The queues, with what waits first."""
        user = await begun(here, ADMIN)
        found = await here.client.api.get(user, "queue")
        wanted = [one for one in found["pools"] if gpu is None or one["gpu"].lower() == gpu.lower()]
        lines = []
        for one in wanted[:GPUS_MAX]:
            said = await here.client.api.get(user, "queue", one["gpu"])
            lines.append(tables.queue(one["gpu"], said))
            lines += [_job(job) for job in one["forecast"][:JOBS_SHOWN]]
        await told(here, lines, "Nothing waits, and nobody works.")


async def _treated(here: Here, agent: str, act: tuple[str, str], said: str) -> None:
    user, (what, reason) = await begun(here, ADMIN), act
    again = await decided(here, user, ("admin", "agents", agent.strip(), what), reason=reason)
    await say(here, f"Agent **{escaped(agent)}** {said}.{again}")


def _agent(one: dict[str, Any]) -> str:
    state = "free" if one["is_free"] else "busy" if one["is_alive"] else "not there"
    why = f": {escaped(str(one['standing_reason']))}" if one["standing_reason"] else ""
    about = f"{escaped(one['gpu'])} · {state} · {one['standing']}{why}"
    return f"**{escaped(one['id'])}** · {about} · {one['level']}, {one['tier']}"


def _job(job: dict[str, Any]) -> str:
    number = f"#{job['number']}" if job["number"] else "somebody's"
    wait = "" if job["eta_s"] is None else f", in about {job['eta_s']:.0f} s"
    why = f" ({escaped(str(job['why']))})" if job["why"] else ""
    return f"{job['position']}. {number}{wait}{why}"
