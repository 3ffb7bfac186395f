"""Submissions after they are accepted: cancel, withdraw, appeal and notes."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ingest.access.callers import Caller, check_problem
from ingest.access.feed import AccessFeed
from ingest.access.rules import Access
from ingest.decisions import AggregateCommand, CommandContext, DecisionResult, Decisions
from ingest.moderation import rules as moderation
from ingest.ports import Note, Ports
from ingest.submissions import rules
from shared import subjects
from shared.blobs import describe_blob
from shared.errors import Failed, Refused
from shared.events import Fact, SubmissionReceived

TEXT_MEDIA = "text/plain"


class SubmissionHistory(NamedTuple):
    """A submission with its events."""

    id: str
    account: str
    problem: str
    facts: Sequence[Fact]


async def load_submission(ports: Ports, number: int) -> SubmissionHistory:
    """Load the submission with this number.

    Raises `Refused` (`unknown_submission`) and `Failed`.
    """
    submission_id = await ports.lookups.submission(number)
    history = await ports.log.history(subjects.submission(submission_id))
    if not history or history[0].seq != number:
        raise Failed(f"the read models and the log disagree on submission {number}: try again")
    first = history[0].fact
    assert isinstance(first, SubmissionReceived), "a number is the sequence of the first event"
    return SubmissionHistory(
        submission_id, first.account, first.problem, [event.fact for event in history]
    )


async def load_own_submission(
    ports: Ports, number: int, caller: Caller, access: Access
) -> SubmissionHistory:
    """Load the caller's own submission. Raises `Refused` (such as `not_yours`) and `Failed`.

    Submissions on a leaderboard that the caller may not see do not exist for them.
    """
    submission = await load_submission(ports, number)
    if submission.account == caller.account:
        check_problem(caller, submission.problem)
        return submission
    try:
        access.check_sees(caller, submission.problem)
    except Refused as refused:
        raise unknown_submission(number) from refused
    raise Refused("not_yours", f"submission {number} belongs to another participant", "number")


def unknown_submission(number: int) -> Refused:
    """Return the refusal for a submission that does not exist for the caller."""
    return Refused("unknown_submission", f"there is no submission {number}", "number")


@dataclass(frozen=True)
class Submissions:
    """The commands about accepted submissions."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    async def cancel(self, number: int, caller: Caller, reason: str) -> DecisionResult:
        """Cancel one's own submission; operators may cancel any.

        Raises `Refused` and `Failed`.
        """
        return await self._cancel(await self._load_ruled(number, caller), caller.actor, reason)

    async def withdraw(self, number: int, caller: Caller, reason: str) -> DecisionResult:
        """Withdraw one's own submission for ever, and cancel it; operators may withdraw any.

        Raises `Refused` (`under_review` while it is held) and `Failed`.
        """
        return await self._withdraw(await self._load_ruled(number, caller), caller.actor, reason)

    async def withdraw_as_operator(self, operator: str, number: int, reason: str) -> DecisionResult:
        """Withdraw a submission for an operator. Raises `Refused` and `Failed`."""
        return await self._withdraw(await load_submission(self.ports, number), operator, reason)

    async def appeal(self, number: int, caller: Caller, text: str) -> DecisionResult:
        """Appeal against a decision about one's own submission. Raises `Refused` and `Failed`."""
        submission = await self._load_own(number, caller)
        data = text.encode()
        command = moderation.Appeal(describe_blob(data, TEXT_MEDIA))
        return await self.decisions.make_all(
            [moderation_command(submission, command)],
            CommandContext(f"account:{submission.account}", submission.id),
            partial(self.ports.blobs.put, data, TEXT_MEDIA),
        )

    async def set_note(self, number: int, caller: Caller, note: Note) -> None:
        """Set the private note on one's own submission. Raises `Refused` and `Failed`."""
        submission = await self._load_own(number, caller)
        await self.ports.people.say_note(submission.account, submission.id, note)

    async def _load_ruled(self, number: int, caller: Caller) -> SubmissionHistory:
        if caller.may("admin:submissions"):
            return await load_submission(self.ports, number)
        return await self._load_own(number, caller)

    async def _load_own(self, number: int, caller: Caller) -> SubmissionHistory:
        return await load_own_submission(self.ports, number, caller, self.feed.now())

    async def _withdraw(
        self, submission: SubmissionHistory, actor: str, reason: str
    ) -> DecisionResult:
        # Decide first, so that a refused withdrawal cancels nothing.
        history = await self.ports.log.history(subjects.moderation(submission.id))
        decider = moderation.moderation
        state = decider.fold([*submission.facts, *(event.fact for event in history)])
        decider.decide(moderation.Withdraw(reason), state)
        if not rules.submissions.fold(submission.facts).is_over:
            with contextlib.suppress(Refused):
                await self._cancel(submission, actor, reason)
        by = CommandContext(actor, submission.id)
        command = moderation_command(submission, moderation.Withdraw(reason))
        return await self.decisions.make_all([command], by)

    async def _cancel(
        self, submission: SubmissionHistory, actor: str, reason: str
    ) -> DecisionResult:
        agg = subjects.submission(submission.id)
        command, by = rules.Cancel(reason), CommandContext(actor, submission.id)
        return await self.decisions.make(agg, rules.submissions, command, by)


def moderation_command(
    submission: SubmissionHistory, command: moderation.ModerationCommand
) -> AggregateCommand:
    """Return a command that is decided on a submission's own history and its moderation's."""
    decider = moderation.moderation
    moderation_decider = replace(decider, initial=decider.fold(submission.facts))
    return AggregateCommand(subjects.moderation(submission.id), moderation_decider, command)
