"""Commands about accepted submissions: cancelling, withdrawing, appeals and notes."""

import contextlib
from dataclasses import dataclass
from functools import partial

from ingest.contests.admission import check_may_withdraw
from ingest.contests.service import load_contest
from ingest.decisions import DecisionResult, Decisions
from ingest.histories import HistoryCache, load_submission
from ingest.http.requests import RequestModel, SubmissionNoteText, Tag
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller, check_problem
from ingest.moderation.service import APPEAL_MEDIA, moderation_command
from ingest.ports import Note, Ports
from ingest.submission_history import SubmissionHistory
from ingest.submissions import rules
from ingest.submissions.resolution import run_options
from shared import events, subjects
from shared.api.submissions import SubmissionRequest
from shared.blobs import BlobNotFound, describe_blob
from shared.errors import Refused, unknown_submission
from shared.source_files import unpack_files


class NoteRequest(RequestModel):
    """A private note on a submission; empty fields remove it."""

    note: SubmissionNoteText = ""
    tag: Tag = ""

    def to_note(self) -> Note:
        """Return the note, without empty fields."""
        return Note(self.note or None, self.tag or None)


@dataclass(frozen=True)
class Submissions:
    """The commands about accepted submissions."""

    ports: Ports
    decisions: Decisions
    histories: HistoryCache
    feed: AccessFeed

    async def cancel(self, number: int, caller: Caller, reason: str) -> DecisionResult:
        """Cancel one's own submission; operators may cancel any. Raises `Refused` and `Failed`."""
        return await self._cancel(await self._load_managed(number, caller), caller.actor, reason)

    async def withdraw(self, number: int, caller: Caller, reason: str) -> DecisionResult:
        """Withdraw one's own submission for ever, and cancel it; operators may withdraw any.

        Raises `Refused` (`under_review` while it is held, and while the results of its contest are
        not final) and `Failed`.
        """
        submission = await self._load_managed(number, caller)
        if submission.received.contest and not caller.may("admin:submissions"):
            contest = await load_contest(submission.received.contest, self.histories)
            if contest is not None:
                check_may_withdraw(submission.received, contest, self.decisions.clock())
        return await self._withdraw(submission, caller.actor, reason)

    async def withdraw_as_operator(self, operator: str, number: int, reason: str) -> DecisionResult:
        """Withdraw a submission for an operator. Raises `Refused` and `Failed`."""
        return await self._withdraw(await load_submission(self.ports, number), operator, reason)

    async def appeal(self, number: int, caller: Caller, text: str) -> DecisionResult:
        """Appeal against a decision about one's own submission. Raises `Refused` and `Failed`."""
        submission = await self.load_own(number, caller)
        data = text.encode()
        command = events.AppealFiled(text=describe_blob(data, APPEAL_MEDIA))
        return await self.decisions.make_all(
            [moderation_command(submission, command)],
            caller.actor,
            partial(self.ports.blobs.put, data, APPEAL_MEDIA),
        )

    async def write_note(self, number: int, caller: Caller, note: Note) -> None:
        """Replace the private note on one's own submission. Raises `Refused` and `Failed`."""
        submission = await self.load_own(number, caller)
        await self.ports.account_store.set_note(submission.account, submission.id, note)

    async def repeat_request(self, number: int, caller: Caller, mode: str) -> SubmissionRequest:
        """Return the request that submits one's own submission again, in this mode.

        Raises `Refused` and `Failed`.
        """
        received = (await self.load_own(number, caller)).received
        try:
            blob = await self.ports.blobs.get(received.source.digest)
        except BlobNotFound as missing:
            message = f"the source of submission {number} is no longer stored: send the file again"
            raise Refused("not_found", message, "number") from missing
        entry, *others = unpack_files(received.name, blob)
        return SubmissionRequest(
            name=received.name,
            source=entry.data,
            others=tuple(others),
            problem=received.problem,
            mode=mode,
            gpus=(received.gpu,),
            runner=received.requires.runner,
            parent=received.parent,
            **(run_options(received) if mode == received.mode else {}),
        )

    async def load_own(self, number: int, caller: Caller) -> SubmissionHistory:
        """Load the caller's own submission. Raises `Refused` (such as `not_yours`) and `Failed`.

        Submissions on a leaderboard that the caller may not see do not exist for them.
        """
        submission = await load_submission(self.ports, number)
        if self.feed.rights().account_of(submission.account) == caller.account:
            check_problem(caller, submission.received.problem)
            return submission
        try:
            self.feed.rights().check_sees(caller, submission.received.problem)
        except Refused as refused:
            raise unknown_submission(number) from refused
        raise Refused("not_yours", f"submission {number} belongs to another participant", "number")

    async def _load_managed(self, number: int, caller: Caller) -> SubmissionHistory:
        if caller.may("admin:submissions"):
            return await load_submission(self.ports, number)
        return await self.load_own(number, caller)

    async def _withdraw(
        self, submission: SubmissionHistory, actor: str, reason: str
    ) -> DecisionResult:
        command = moderation_command(submission, events.SubmissionWithdrawn(reason=reason))
        # Decide first, so that a refused withdrawal cancels nothing.
        await self.decisions.preview([command])
        if not rules.SUBMISSION_DECIDER.fold(submission.facts).is_over:
            with contextlib.suppress(Refused):
                await self._cancel(submission, actor, reason)
        return await self.decisions.make_all([command], actor)

    async def _cancel(
        self, submission: SubmissionHistory, actor: str, reason: str
    ) -> DecisionResult:
        command = events.SubmissionCancelRequested(reason=reason)
        aggregate = subjects.submission(submission.id)
        return await self.decisions.make(aggregate, rules.SUBMISSION_DECIDER, command, actor)
