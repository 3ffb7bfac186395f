"""What operators decide about rejudges: to ask for one, to apply or discard it."""

from dataclasses import dataclass

from ingest.domain import endings, problems
from ingest.service.decisions import By, Decisions, Made
from ingest.service.ports import Ports, Wanted
from shared import subjects
from shared.clock import new_id
from shared.errors import Refused
from shared.event_log import New
from shared.events import RejudgeRequested
from shared.wire import Stamp, seal


@dataclass(frozen=True)
class Rejudges:
    """The commands of operators about rejudges."""

    ports: Ports
    decisions: Decisions

    async def request(
        self, wanted: endings.Selection, operator: str
    ) -> tuple[str, RejudgeRequested]:
        """Let submissions run again under another version. Errors: Refused; Failed."""
        problem = await self._problem(wanted.problem)
        published = problems.known(wanted.problem, problem)
        # What takes nothing in any more has entries still.
        gpus = {gpu.lower(): gpu for gpu in (*problem.gpus_ever, *published.gpus)}
        if wanted.gpu is not None and wanted.gpu.lower() not in gpus:
            what = f"GPU type {wanted.gpu!r} is none of {', '.join(gpus.values())}"
            raise Refused("unknown_gpu", what, "gpu")
        start, _ = endings.versions(wanted, problem.digests)
        gpu = gpus[wanted.gpu.lower()] if wanted.gpu else None
        found = Wanted(wanted.problem, start, wanted.select, gpu)
        items = await self.ports.lookups.rejudge_items(found)
        fact = endings.requested(wanted, problem.digests, items)
        rejudge = new_id()
        stamp = Stamp(new_id(), self.decisions.clock(), operator, rejudge, "http")
        await self.ports.log.append(New(seal(fact, subjects.rejudge(rejudge), stamp), 0))
        return rejudge, fact

    async def end(
        self, rejudge: str, command: endings.Apply | endings.Discard, operator: str
    ) -> Made:
        """Let the results of a rejudge count, or not. Errors: Refused; Failed."""
        agg = subjects.rejudge(rejudge)
        return await self.decisions.make(agg, endings.rejudges, command, By(operator, rejudge))

    async def _problem(self, slug: str) -> problems.Problem:
        try:
            agg = subjects.problem(slug)
        except ValueError:
            return problems.Problem()
        history = await self.ports.log.history(agg)
        return problems.problems.fold(event.fact for event in history)
