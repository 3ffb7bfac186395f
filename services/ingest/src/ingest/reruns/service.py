"""Runs submissions again: one, many under another version (rejudges), and two in a duel."""

from dataclasses import dataclass

from ingest.decisions import OPERATORS, DecisionResult, Decisions, http_append
from ingest.histories import load_submission
from ingest.moderation.rules import MODERATION_DECIDER
from ingest.ports import Ports
from ingest.problems.rules import newest_version
from ingest.problems.service import load_problem
from ingest.reruns import rules
from ingest.submissions.rules import SUBMISSION_DECIDER
from shared import events, subjects
from shared.api.moderation import RequestedRejudge
from shared.clock import new_id
from shared.errors import Refused
from shared.event_log import Conflict
from shared.subjects import derive_id

# The command in the log, and what the id of a repeated submission is derived with.
RETRY = "retry"


@dataclass(frozen=True)
class Reruns:
    """Runs submissions again for operators. Methods may raise `Refused` and `Failed`."""

    ports: Ports
    decisions: Decisions

    async def retry(self, number: int, reason: str, operator: str) -> DecisionResult:
        """Submit a file again for its owner, once; an open submission is cancelled.

        The sequence of the result is the new number.
        """
        submission = await load_submission(self.ports, number)
        problem = await load_problem(submission.received.problem, self.decisions.load_state)
        moderated = await self.decisions.load_state(
            subjects.moderation(submission.id), MODERATION_DECIDER
        )
        received = rules.repeat_submission(
            number,
            submission,
            problem,
            is_withdrawn=moderated.is_withdrawn,
            at=self.decisions.clock(),
        )
        retry = derive_id(submission.id, RETRY)
        if repeated := await self.ports.log.history(subjects.submission(retry)):
            message = f"submission {number} was retried already, as submission {repeated[0].seq}"
            raise Refused("wrong_state", message, "number")
        appends = [http_append(subjects.submission(retry), received, 0, retry)]
        state = SUBMISSION_DECIDER.fold(submission.facts)
        if not (state.is_over or state.is_cancelled):
            cancel = events.SubmissionCancelRequested(reason=reason)
            version = submission.history[-1].seq
            aggregate = subjects.submission(submission.id)
            appends.append(http_append(aggregate, cancel, version, submission.id))
        acted = events.OperatorActed(command=RETRY, target=str(number), reason=reason)
        appends.append(http_append(subjects.audit(OPERATORS), acted, None, retry))
        try:
            last = await self.decisions.append(operator, *appends)
        except Conflict as conflict:
            message = f"submission {number} has just changed: look at it and try again"
            raise Refused("wrong_state", message, "number") from conflict
        return DecisionResult(last - len(appends) + 1, [received])

    async def request_rejudge(
        self, request: rules.RejudgeRequest, operator: str
    ) -> RequestedRejudge:
        """Run submissions again under another version of their problem."""
        slug = request.problem
        problem = await load_problem(slug, self.decisions.load_state)
        published = newest_version(slug, problem)
        # GPU types that were closed still have entries.
        gpus = {gpu.lower(): gpu for gpu in (*problem.gpus_ever, *published.gpus)}
        if request.gpu is not None and request.gpu.lower() not in gpus:
            message = f"GPU type {request.gpu!r} is not one of {', '.join(gpus.values())}"
            raise Refused("unknown_gpu", message, "gpu")
        from_version, _ = rules.select_versions(request, problem.digests)
        gpu = gpus[request.gpu.lower()] if request.gpu else None
        items = await self.ports.lookups.rejudge_items(slug, request.select, from_version, gpu)
        fact = rules.request_rejudge(request, problem.digests, items)
        rejudge = new_id()
        await self.decisions.record(subjects.rejudge(rejudge), fact, operator)
        return RequestedRejudge(
            id=rejudge,
            count=len(fact.items),
            from_version=fact.from_number,
            to_version=fact.to_number,
        )

    async def end_rejudge(
        self, rejudge: str, command: rules.RejudgeEnd, operator: str
    ) -> DecisionResult:
        """Apply or discard the results of a rejudge."""
        aggregate = subjects.rejudge(rejudge)
        return await self.decisions.make(aggregate, rules.REJUDGE_DECIDER, command, operator)

    async def request_duel(self, request: rules.DuelRequest, operator: str) -> DecisionResult:
        """Time two submissions in alternation."""
        first = await load_submission(self.ports, request.first)
        second = await load_submission(self.ports, request.second)
        duel = rules.request_duel(request, first, second)
        return await self.decisions.record(subjects.duel(new_id()), duel, operator)
