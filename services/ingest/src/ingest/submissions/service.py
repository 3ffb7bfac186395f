"""Submissions after they are accepted: cancel, withdraw, appeal and notes."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ingest.access.callers import Caller, check_problem
from ingest.access.feed import AccessFeed
from ingest.decisions import AggregateCommand, DecisionResult, Decisions
from ingest.moderation import rules as moderation
from ingest.ports import Ports
from ingest.submissions import rules
from shared import subjects
from shared.blobs import describe_blob
from shared.errors import Failed, Refused
from shared.events import (
    AppealFiled,
    Fact,
    SubmissionCancelRequested,
    SubmissionReceived,
    SubmissionWithdrawn,
)

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
        return await self._cancel(await self._load_managed(number, caller), caller.actor, reason)

    async def withdraw(self, number: int, caller: Caller, reason: str) -> DecisionResult:
        """Withdraw one's own submission for ever, and cancel it; operators may withdraw any.

        Raises `Refused` (`under_review` while it is held) and `Failed`.
        """
        return await self._withdraw(await self._load_managed(number, caller), caller.actor, reason)

    async def withdraw_as_operator(self, operator: str, number: int, reason: str) -> DecisionResult:
        """Withdraw a submission for an operator. Raises `Refused` and `Failed`."""
        return await self._withdraw(await load_submission(self.ports, number), operator, reason)

    async def appeal(self, number: int, caller: Caller, text: str) -> DecisionResult:
        """Appeal against a decision about one's own submission. Raises `Refused` and `Failed`."""
        submission = await self.load_own(number, caller)
        data = text.encode()
        command = AppealFiled(text=describe_blob(data, TEXT_MEDIA))
        return await self.decisions.make_all(
            [moderation_command(submission, command)],
            f"account:{submission.account}",
            partial(self.ports.blobs.put, data, TEXT_MEDIA),
        )

    async def load_own(self, number: int, caller: Caller) -> SubmissionHistory:
        """Load the caller's own submission. Raises `Refused` (such as `not_yours`) and `Failed`.

        Submissions on a leaderboard that the caller may not see do not exist for them.
        """
        submission = await load_submission(self.ports, number)
        if submission.account == caller.account:
            check_problem(caller, submission.problem)
            return submission
        try:
            self.feed.now().check_sees(caller, submission.problem)
        except Refused as refused:
            message = f"there is no submission {number}"
            raise Refused("unknown_submission", message, "number") from refused
        raise Refused("not_yours", f"submission {number} belongs to another participant", "number")

    async def _load_managed(self, number: int, caller: Caller) -> SubmissionHistory:
        if caller.may("admin:submissions"):
            return await load_submission(self.ports, number)
        return await self.load_own(number, caller)

    async def _withdraw(
        self, submission: SubmissionHistory, actor: str, reason: str
    ) -> DecisionResult:
        command = moderation_command(submission, SubmissionWithdrawn(reason=reason))
        # Decide first, so that a refused withdrawal cancels nothing.
        await self.decisions.preview([command])
        if not rules.submissions.fold(submission.facts).is_over:
            with contextlib.suppress(Refused):
                await self._cancel(submission, actor, reason)
        return await self.decisions.make_all([command], actor)

    async def _cancel(
        self, submission: SubmissionHistory, actor: str, reason: str
    ) -> DecisionResult:
        command = SubmissionCancelRequested(reason=reason)
        agg = subjects.submission(submission.id)
        return await self.decisions.make(agg, rules.submissions, command, actor)


def moderation_command(
    submission: SubmissionHistory, command: moderation.ModerationCommand
) -> AggregateCommand:
    """Return a command that is decided on a submission's own history and its moderation's."""
    decider = moderation.moderation
    moderation_decider = replace(decider, initial=decider.fold(submission.facts))
    return AggregateCommand(subjects.moderation(submission.id), moderation_decider, command)
