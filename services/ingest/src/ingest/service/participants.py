"""What participants ask for beside submitting: to cancel, to appeal, to know what is left."""

import contextlib
from dataclasses import dataclass, replace

from ingest.domain import endings, moderation, quotas, submissions
from ingest.domain.callers import Caller
from ingest.domain.quotas import Balance
from ingest.service.decisions import By, Decisions, Made, Wish
from ingest.service.gate import AccessFeed
from ingest.service.intake import Intake
from ingest.service.numbered import Numbered, by_number, own_by_number
from ingest.service.ports import Note, Ports
from shared import subjects
from shared.blobs import named
from shared.errors import Refused
from shared.problems.directives import Directives

TEXT = "text/plain"


@dataclass(frozen=True)
class Participants:
    """The commands of participants about what they sent."""

    ports: Ports
    decisions: Decisions
    intake: Intake
    feed: AccessFeed

    async def cancel(self, number: int, caller: Caller, reason: str) -> Made:
        """Let one's own submission end without a verdict, or anybody's by an operator.

        Errors: Refused; Failed.
        """
        return await self._cancel(await self._ruled(number, caller), caller.actor, reason)

    async def withdraw(self, number: int, caller: Caller, reason: str) -> Made:
        """Take one's own submission off its leaderboard for ever, or anybody's by an operator.

        What goes on is cancelled. Errors: Refused, `under_review` while it is held; Failed.
        """
        return await self._withdraw(await self._ruled(number, caller), caller.actor, reason)

    async def withdraw_for(self, operator: str, number: int, reason: str) -> Made:
        """The same by who is known to be an operator. Errors: Refused; Failed."""
        return await self._withdraw(await by_number(self.ports, number), operator, reason)

    async def appeal(self, number: int, caller: Caller, text: str) -> Made:
        """Ask to look again at what was decided about one's own. Errors: Refused; Failed."""
        found = await self._own(number, caller)
        command = moderation.Appeal(named(text.encode(), TEXT))
        by = By(f"account:{found.account}", found.id)
        # Nothing is kept of what is refused.
        await self.decisions.preview([_moderating(found, command)])
        await self.ports.blobs.put(text.encode(), TEXT)
        return await moderate(self.decisions, found, command, by)

    async def say(self, number: int, caller: Caller, note: Note) -> None:
        """Note something on one's own submission, for oneself. Errors: Refused; Failed."""
        found = await self._own(number, caller)
        await self.ports.people.say_note(found.account, found.id, note)

    async def balances(self, caller: Caller, problem: str, gpu: str | None) -> list[Balance]:
        """What is left of every quota, or of those of one leaderboard. Errors: Refused; Failed."""
        at = self.decisions.clock()
        found = await self.intake.quotas(caller.account or quotas.EVERYBODY, at)
        if not problem:
            return quotas.balances(found.own, found.everybody, at)
        published = await self.intake.published(problem)
        self.feed.now().check_sees(caller, problem)
        chosen = submissions.choose_gpu(gpu, Directives(), published)
        names = [quotas.bucket(problem, chosen, mode) for mode in ("test", "ranked")]
        limited = (quotas.balance(name, found.own, found.everybody, at) for name in names)
        return [one for one in limited if one is not None]

    async def _ruled(self, number: int, caller: Caller) -> Numbered:
        if caller.may("admin:submissions"):
            return await by_number(self.ports, number)
        return await self._own(number, caller)

    async def _own(self, number: int, caller: Caller) -> Numbered:
        return await own_by_number(self.ports, number, caller, self.feed.now())

    async def _withdraw(self, found: Numbered, actor: str, reason: str) -> Made:
        # Whether it may be is asked first: who is refused has cancelled nothing.
        history = await self.ports.log.history(subjects.moderation(found.id))
        decider = moderation.moderation
        state = decider.fold([*found.facts, *(event.fact for event in history)])
        decider.decide(moderation.Withdraw(reason), state)
        if not endings.submissions.fold(found.facts).is_over:
            with contextlib.suppress(Refused):
                await self._cancel(found, actor, reason)
        by = By(actor, found.id)
        return await moderate(self.decisions, found, moderation.Withdraw(reason), by)

    async def _cancel(self, found: Numbered, actor: str, reason: str) -> Made:
        agg = subjects.submission(found.id)
        command, by = endings.Cancel(reason), By(actor, found.id)
        return await self.decisions.make(agg, endings.submissions, command, by)


async def moderate(
    decisions: Decisions, found: Numbered, command: moderation.ModerationCommand, by: By
) -> Made:
    """A decision about a submission, on its own history and on that of its moderation."""
    return await decisions.make_all([_moderating(found, command)], by)


def _moderating(found: Numbered, command: moderation.ModerationCommand) -> Wish:
    decider = moderation.moderation
    begun = replace(decider, initial=decider.fold(found.facts))
    return Wish(subjects.moderation(found.id), begun, command)
