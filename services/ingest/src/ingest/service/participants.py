"""What participants ask for beside submitting: to cancel, to appeal, to know what is left."""

from dataclasses import dataclass, replace

from ingest.domain import endings, moderation, quotas, submissions
from ingest.domain.quotas import Balance
from ingest.service.cases import Case, load_case, own_case
from ingest.service.decisions import By, Decisions, Made
from ingest.service.intake import Intake
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
        case = await own_case(self.ports, number, participant)
        return await self._cancel(case, f"account:{case.account}", reason)

    async def cancel_for(self, operator: str, number: int, reason: str) -> Made:
        """The same for anybody's, by an operator. Errors: Refused; Failed."""
        return await self._cancel(await load_case(self.ports, number), operator, reason)

    async def appeal(self, number: int, participant: str, text: str) -> Made:
        """Ask to look again at what was decided about one's own. Errors: Refused; Failed."""
        case = await own_case(self.ports, number, participant)
        blob = await self.ports.blobs.put(text.encode(), "text/plain")
        by = By(f"account:{case.account}", case.id)
        return await moderate(self.decisions, case, moderation.Appeal(blob), by)

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

    async def _cancel(self, case: Case, actor: str, reason: str) -> Made:
        agg = subjects.submission(case.id)
        command, by = endings.Cancel(reason), By(actor, case.id)
        return await self.decisions.make(agg, endings.submissions, command, by)


async def moderate(
    decisions: Decisions, case: Case, command: moderation.ModerationCommand, by: By
) -> Made:
    """A decision about a submission, on its own history and on that of its moderation."""
    decider = moderation.moderation
    begun = replace(decider, initial=decider.fold(case.facts))
    return await decisions.make(subjects.moderation(case.id), begun, command, by)
