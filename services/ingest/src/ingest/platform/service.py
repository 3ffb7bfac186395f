"""Commands that operate the platform: intake, projections, dead letters, manual actions."""

from dataclasses import dataclass

from ingest.decisions import DecisionResult, Decisions
from ingest.platform import rules
from ingest.ports import Ports
from shared import subjects
from shared.bus import redrive_event
from shared.errors import Refused
from shared.events import EventSkipped
from shared.wire import decode_fact


@dataclass(frozen=True)
class Operators:
    """The commands that operate the platform."""

    ports: Ports
    decisions: Decisions

    async def intake(self, command: rules.IntakeCommand, operator: str) -> DecisionResult:
        """Pause or resume intake. Raises `Refused` and `Failed`."""
        aggregate = subjects.audit(rules.PLATFORM)
        return await self.decisions.make(aggregate, rules.INTAKE_DECIDER, command, operator)

    async def redrive(self, consumer: str, seq: int, reason: str, operator: str) -> DecisionResult:
        """Deliver a dead letter to its consumer again. Raises `Refused` and `Failed`."""
        for dead_letter in await self.ports.dead_letters.list():
            if (dead_letter.consumer, dead_letter.seq) == (consumer, seq):
                event = redrive_event(dead_letter, reason, operator, self.decisions.clock())
                seq = await self.ports.log.append(event)
                return DecisionResult(seq, [decode_fact(event.envelope)])
        message = f"{consumer} has no dead letter {seq}: GET /v1/admin/deadletters lists them"
        raise Refused("unknown_dead_letter", message, "seq")

    async def skip(self, event: EventSkipped, operator: str) -> DecisionResult:
        """Let a projection skip an event that it cannot fold. Raises `Refused` and `Failed`."""
        command = rules.Skip(event, await self.ports.log.last())
        aggregate = subjects.audit(rules.PROJECTIONS)
        return await self.decisions.make(
            aggregate, rules.SKIP_DECIDER, command, operator, event.projection
        )
