"""What operators decide about duels: to ask for one."""

from dataclasses import dataclass

from ingest.domain.duels import Contender, request_duel
from ingest.service.decisions import Decisions, Made
from ingest.service.numbered import by_number
from ingest.service.ports import Ports
from shared import subjects
from shared.clock import new_id
from shared.event_log import New
from shared.wire import Stamp, seal


@dataclass(frozen=True)
class Duels:
    """The command of operators about duels."""

    ports: Ports
    decisions: Decisions

    async def request(
        self, numbers: tuple[int, int], gpu: str | None, reason: str, operator: str
    ) -> Made:
        """Time two submissions in alternation, at nobody's cost. Errors: Refused; Failed."""
        first, second = [await self._contender(number) for number in numbers]
        fact = request_duel(first, second, gpu, reason)
        duel = new_id()
        stamp = Stamp(new_id(), self.decisions.clock(), operator, duel, "http")
        seq = await self.ports.log.append(New(seal(fact, subjects.duel(duel), stamp), 0))
        return Made(fact, seq, [fact])

    async def _contender(self, number: int) -> Contender:
        found = await by_number(self.ports, number)
        return Contender(number, found.id, found.facts)
