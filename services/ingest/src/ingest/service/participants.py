"""What participants ask for beside submitting: to cancel, to appeal, to know what is left."""

from dataclasses import dataclass, replace

from ingest.domain import endings, moderation, quotas, submissions
from ingest.domain.quotas import Balance
from ingest.service.decisions import By, Decisions, Made
from ingest.service.intake import Intake
from ingest.service.numbered import Numbered, by_number, own_by_number
from ingest.service.ports import Ports
from shared import subjects
from shared.problems.directives import Directives


@dataclass(frozen=True)
class Participants:
    """The commands of participants about what they sent."""

    ports: Ports
    decisions: Decisions
    intake: Intake

    async def cancel(self, number: int, participant: str, reason: str) -> Made:
        """Let one's own submission end without a verdict. Errors: Refused; Failed."""
        found = await own_by_number(self.ports, number, participant)
        return await self._cancel(found, f"account:{found.account}", reason)

    async def cancel_for(self, operator: str, number: int, reason: str) -> Made:
        """The same for anybody's, by an operator. Errors: Refused; Failed."""
        return await self._cancel(await by_number(self.ports, number), operator, reason)

    async def appeal(self, number: int, participant: str, text: str) -> Made:
        """Ask to look again at what was decided about one's own. Errors: Refused; Failed."""
        found = await own_by_number(self.ports, number, participant)
        blob = await self.ports.blobs.put(text.encode(), "text/plain")
        by = By(f"account:{found.account}", found.id)
        return await moderate(self.decisions, found, moderation.Appeal(blob), by)

    async def balances(self, participant: str, problem: str, gpu: str | None) -> list[Balance]:
        """What is left of every quota, or of those of one leaderboard. Errors: Refused; Failed."""
        at = self.decisions.clock()
        account = await self.ports.people.known(participant)
        found = await self.intake.quotas(account or quotas.EVERYBODY, at)
        if not problem:
            return quotas.balances(found.own, found.everybody, at)
        published = await self.intake.published(problem)
        chosen = submissions.choose_gpu(gpu, Directives(), published)
        names = [quotas.bucket(problem, chosen, mode) for mode in ("test", "ranked")]
        limited = (quotas.balance(name, found.own, found.everybody, at) for name in names)
        return [one for one in limited if one is not None]

    async def _cancel(self, found: Numbered, actor: str, reason: str) -> Made:
        agg = subjects.submission(found.id)
        command, by = endings.Cancel(reason), By(actor, found.id)
        return await self.decisions.make(agg, endings.submissions, command, by)


async def moderate(
    decisions: Decisions, found: Numbered, command: moderation.ModerationCommand, by: By
) -> Made:
    """A decision about a submission, on its own history and on that of its moderation."""
    decider = moderation.moderation
    begun = replace(decider, initial=decider.fold(found.facts))
    return await decisions.make(subjects.moderation(found.id), begun, command, by)
