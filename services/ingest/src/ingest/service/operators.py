"""What operators do to the platform itself, and the record of what has no event of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.domain import platform
from ingest.service.decisions import By, Decisions, Made
from ingest.service.intake import PLATFORM
from ingest.service.ports import Ports
from shared import subjects
from shared.clock import new_id
from shared.deadletters import DeadLetter, redriven
from shared.errors import Refused
from shared.event_log import New
from shared.events import OperatorActed
from shared.wire import Stamp, fact_of, seal

PROJECTIONS = "projections"
OPERATORS = "operators"


@dataclass(frozen=True)
class Operators:
    """The commands of operators about the platform."""

    ports: Ports
    decisions: Decisions

    async def intake(
        self, command: platform.PauseIntake | platform.ResumeIntake, operator: str
    ) -> Made:
        """Take nothing in, or take in again. Errors: Refused; Failed."""
        agg, by = subjects.audit(PLATFORM), By(operator, PLATFORM)
        return await self.decisions.make(agg, platform.intake, command, by)

    async def skip(self, projection: str, seq: int, reason: str, operator: str) -> Made:
        """Let a projection go on without an event. Errors: Refused; Failed."""
        command = platform.Skip(projection, seq, await self.ports.log.last(), reason)
        agg, by = subjects.audit(PROJECTIONS), By(operator, projection)
        return await self.decisions.make(agg, platform.skips, command, by)

    async def dead_letters(self) -> Sequence[DeadLetter]:
        """The events that consumers gave up, oldest first. Errors: Failed."""
        return await self.ports.dead_letters.list()

    async def redrive(self, consumer: str, seq: int, reason: str, operator: str) -> Made:
        """Hand an event to the consumer that gave it up once more. Errors: Refused; Failed."""
        letters = await self.ports.dead_letters.list()
        letter = next((one for one in letters if (one.consumer, one.seq) == (consumer, seq)), None)
        if letter is None:
            what = f"{consumer} has no dead letter {seq}: GET /v1/admin/deadletters lists them"
            raise Refused("unknown_dead_letter", what, "seq")
        new = redriven(letter, reason, operator, self.decisions.clock())
        return Made(fact_of(new.envelope), await self.ports.log.append(new))

    async def acted(self, command: str, target: str, reason: str, operator: str) -> Made:
        """Keep what an operator says that they did. Errors: Failed."""
        fact = OperatorActed(command=command, target=target, reason=reason)
        stamp = Stamp(new_id(), self.decisions.clock(), operator, OPERATORS, "http")
        # Notes stand beside each other: none depends on the one before.
        new = New(seal(fact, subjects.audit(OPERATORS), stamp), None)
        return Made(fact, await self.ports.log.append(new))
