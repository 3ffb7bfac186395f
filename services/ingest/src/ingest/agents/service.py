"""Commands about agents and pools."""

from dataclasses import dataclass

from ingest.agents import rules
from ingest.decisions import DecisionResult, Decisions
from ingest.histories import load_submission
from ingest.ports import Ports
from shared import subjects


@dataclass(frozen=True)
class AgentCommands:
    """Manages agents and pools. Methods may raise `Refused` and `Failed`."""

    ports: Ports
    decisions: Decisions

    async def change_agent(
        self, agent: str, command: rules.AgentCommand, operator: str
    ) -> DecisionResult:
        """Enroll, cordon, drain, quarantine, release or revoke an agent."""
        return await self.decisions.make(
            subjects.agent(agent), rules.AGENT_DECIDER, command, operator
        )

    async def change_pool(
        self, gpu: str, command: rules.PoolCommand, operator: str
    ) -> DecisionResult:
        """Pause or resume a pool, or remove its canary."""
        return await self.decisions.make(subjects.pool(gpu), rules.POOL_DECIDER, command, operator)

    async def choose_canary(
        self, gpu: str, number: int, every_s: float, ratio_max: float, operator: str
    ) -> DecisionResult:
        """Run a submission on every agent of a pool, repeatedly."""
        submission = await load_submission(self.ports, number)
        command = rules.choose_canary(gpu, submission, every_s, ratio_max)
        return await self.change_pool(gpu, command, operator)
