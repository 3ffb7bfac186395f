"""What operators decide about agents and pools."""

from dataclasses import dataclass

from ingest.domain import agents, pools
from ingest.service.decisions import By, Decisions, Made
from ingest.service.numbered import by_number
from ingest.service.ports import Ports
from shared import subjects


@dataclass(frozen=True)
class Machines:
    """The commands of operators about machines."""

    ports: Ports
    decisions: Decisions

    async def treat(self, agent: str, command: agents.AgentCommand, operator: str) -> Made:
        """Enroll, cordon, drain, release or revoke an agent. Errors: Refused; Failed."""
        agg = subjects.agent(agent)
        return await self.decisions.make(agg, agents.agents, command, By(operator, agent))

    async def pool(self, gpu: str, command: pools.PoolCommand, operator: str) -> Made:
        """Pause or resume a pool, or let it go without a canary. Errors: Refused; Failed."""
        agg = subjects.pool(gpu)
        return await self.decisions.make(agg, pools.pools, command, By(operator, gpu))

    async def canary(self, number: int, wanted: pools.Canary, operator: str) -> Made:
        """Run a submission on every agent of a pool, again and again. Errors: Refused; Failed."""
        found = await by_number(self.ports, number)
        chosen = pools.canary(wanted, found.id, found.facts)
        return await self.pool(wanted.gpu, pools.ChooseCanary(chosen), operator)
