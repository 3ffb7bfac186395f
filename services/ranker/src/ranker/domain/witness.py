"""Whether the results on a leaderboard are what enrolled agents vouch for."""

from collections.abc import Callable, Iterable
from math import isclose
from typing import Any, NamedTuple

from ranker.domain.attestation import Fault, Origin, find_fault
from ranker.domain.confirmation import compare
from ranker.domain.roofs import BELOW_FLOOR, below, floors
from ranker.domain.score import scored, tie_share
from ranker.domain.scrutiny import Finding
from ranker.domain.seals import Verify
from shared import events
from shared.event_log import Recorded
from shared.events import DUEL, HARNESS_CODE, SubmissionFinished
from shared.ids import confirmation_job, duel_job
from shared.subjects import history_of, last_token
from shared.wire import is_genuine

# Another machine's logarithm may differ in the last bits.
SCORE_TOLERANCE = 1e-9


class _Run(NamedTuple):
    """A run of this leaderboard: where its verdict is, what is wrong with it, and its times."""

    seq: int
    fault: Fault | None
    verdict: str
    timed: tuple[events.CaseResult, ...]
    sigma_run: float
    tie_us: float
    order: events.JobAssigned | None = None
    duel: events.DuelResult | None = None
    agent: str = ""


class Witness:
    """Checks the runs behind one leaderboard while the log is folded."""

    def __init__(self, problem: str, gpu: str, verify: Verify) -> None:
        self.verified = 0
        self.refused: list[Finding] = []
        self._faults: dict[tuple[str, int], Finding] = {}
        self._problem = problem
        self._gpu = gpu
        self._verify = verify
        self._keys: dict[str, str | None] = {}
        self._harness_codes: dict[str, str] = {}
        self._key_commits: dict[str, str] = {}
        self._tokens: dict[str, int] = {}
        self._leased: dict[str, str] = {}
        self._runs: dict[str, _Run] = {}
        self._rules: dict[int, str] = {}
        self._floors: dict[int, dict[str, float]] = {}
        self._versions: dict[str, int] = {}
        self._rejudges: dict[str, int] = {}
        self._orders: dict[str, events.JobAssigned] = {}
        self._duels: dict[str, events.DuelRequested] = {}
        self._duel_faults: dict[tuple[int, frozenset[str]], Finding] = {}
        self._confirmations: dict[str, events.ConfirmationRequested] = {}
        self._confirmation_faults: dict[tuple[str, int], Finding] = {}

    def fold(self, event: Recorded) -> None:
        """Take the next event in."""
        meaning = _MEANING.get(event.envelope.type)
        if meaning is not None and is_genuine(event.envelope):
            meaning(self, event, event.fact)

    def findings(self, counting: Iterable[str], number: int) -> list[Finding]:
        """What is wrong with the results of these submissions under a problem version."""
        found = (self._faults.get((submission, number)) for submission in counting)
        duels = (fault for (of, _), fault in self._duel_faults.items() if of == number)
        repeated = (fault for (_, of), fault in self._confirmation_faults.items() if of == number)
        return [*(one for one in found if one is not None), *duels, *repeated]

    def enrolled(self, event: Recorded, fact: events.AgentEnrolled) -> None:
        """An agent has a key."""
        self._keys[last_token(event.envelope.agg)] = fact.sign_key

    def revoked(self, event: Recorded, _fact: object) -> None:
        """An agent's key is worth nothing any more."""
        self._keys[last_token(event.envelope.agg)] = None

    def registered(self, event: Recorded, fact: events.AgentRegistered) -> None:
        """Which harness code an agent runs from now on."""
        agent = last_token(event.envelope.agg)
        self._harness_codes[agent] = fact.details.get(HARNESS_CODE, "")

    def published(self, event: Recorded, fact: events.ProblemPublished) -> None:
        """How a version's scores are made, and what they cannot be."""
        if last_token(event.envelope.agg) == self._problem:
            self._rules[fact.number] = fact.ranking_by
            self._floors[fact.number] = floors(fact.roofs, self._gpu)

    def received(self, event: Recorded, fact: events.SubmissionReceived) -> None:
        """Which version a submission is for."""
        if (fact.problem, fact.gpu) == (self._problem, self._gpu):
            self._versions[last_token(event.envelope.agg)] = fact.problem_number

    def leased(self, _event: Recorded, fact: events.JobLeased) -> None:
        """Only the run that a lease names may speak, and only its agent for it."""
        self._leased[fact.run] = f"run.{fact.agent}.{fact.run}"

    def assigned(self, event: Recorded, fact: events.JobAssigned) -> None:
        """The order, whose sequence is what the agent's signature names."""
        agg = event.envelope.agg
        if self._leased.get(last_token(agg)) != agg:
            return
        if fact.submission in self._versions and fact.mode in ("ranked", DUEL):
            self._tokens[agg] = event.seq
            if fact.mode == DUEL or fact.job in self._confirmations:
                self._orders[agg] = fact
        else:
            del self._leased[last_token(agg)]

    def started(self, event: Recorded, fact: events.RunStarted) -> None:
        """Which key a run has committed to, by the first that it says."""
        agg = history_of(event.envelope.agg)
        if agg in self._tokens:
            self._key_commits.setdefault(agg, fact.key_commit)

    def completed(self, event: Recorded, fact: events.RunCompleted) -> None:
        """The verdict: checked now, so that its bytes need not be kept."""
        agg = history_of(event.envelope.agg)
        token, key_commit = self._tokens.pop(agg, None), self._key_commits.pop(agg, None)
        order = self._orders.pop(agg, None)
        run = last_token(agg)
        if token is None or self._leased.pop(run, None) != agg:
            return
        agent = agg.split(".")[1]
        sign_key, code = self._keys.get(agent), self._harness_codes.get(agent, "")
        origin = Origin(agent, run, token, sign_key, key_commit, code)
        fault = find_fault(event.envelope, fact.key, fact.environment, origin, self._verify)
        self.verified += fault is None
        if fault is not None:
            self.refused.append(Finding(event.seq, fault.reason))
        timed = tuple(case for case in fact.cases if case.stage == "time")
        times = fact.sigma_run, fact.tie_us
        self._runs[run] = _Run(
            event.seq, fault, fact.verdict, timed, *times, order, fact.duel, agent
        )

    def finished(self, event: Recorded, fact: SubmissionFinished) -> None:
        """The decision must follow from a run that was signed."""
        submission = last_token(event.envelope.agg)
        if submission in self._versions:
            self._decided((submission, self._versions[submission]), event.seq, fact)

    def duel_requested(self, event: Recorded, fact: events.DuelRequested) -> None:
        """Which two sources are to be timed."""
        if (fact.problem, fact.gpu) == (self._problem, self._gpu):
            self._duels.setdefault(last_token(event.envelope.agg), fact)

    def duel_judged(self, event: Recorded, fact: events.DuelJudged) -> None:
        """The winner must be what a signed run of just this duel found."""
        duel = last_token(event.envelope.agg)
        requested = self._duels.pop(duel, None)
        run = self._runs.pop(fact.run or "", None)
        if requested is None or fact.result is None or fact.result.ratio is None:
            return
        sources = frozenset((requested.first.source.digest, requested.second.source.digest))
        pair = requested.problem_number, sources
        self._duel_faults.pop(pair, None)
        if run is None:
            what = f"it orders two entries, but no leased run {fact.run} ended before it"
            self._duel_faults[pair] = Finding(event.seq, what)
        elif run.fault is not None:
            self._duel_faults[pair] = Finding(run.seq, run.fault.reason)
        elif not _is_of_duel(run, duel, requested) or run.duel != fact.result:
            what = f"its winner does not follow from its run (event {run.seq})"
            self._duel_faults[pair] = Finding(event.seq, what)

    def confirmation_requested(self, event: Recorded, fact: events.ConfirmationRequested) -> None:
        """Which run is to be repeated."""
        if (fact.problem, fact.gpu) == (self._problem, self._gpu):
            job = confirmation_job(last_token(event.envelope.agg))
            self._confirmations.setdefault(job, fact)

    def confirmation_judged(self, event: Recorded, fact: events.ConfirmationJudged) -> None:
        """What is said of a repetition must follow from its signed run on another agent."""
        job = confirmation_job(last_token(event.envelope.agg))
        requested = self._confirmations.pop(job, None)
        result = fact.result
        if requested is None or result is None:
            return
        run = self._runs.pop(result.run or "", None)
        entry = requested.item.submission, requested.problem_number
        self._confirmation_faults.pop(entry, None)
        if run is None or run.order is None:
            what = f"its confirmation names run {result.run}, which no lease gave to an agent"
            self._confirmation_faults[entry] = Finding(event.seq, what)
        elif run.fault is not None:
            self._confirmation_faults[entry] = Finding(run.seq, run.fault.reason)
        elif not (
            _is_repetition(run, job, requested, fact.agent)
            and self._follows_from_repetition(fact, result, run, requested)
        ):
            what = f"its confirmation does not follow from its run (event {run.seq})"
            self._confirmation_faults[entry] = Finding(event.seq, what)

    def _follows_from_repetition(
        self,
        fact: events.ConfirmationJudged,
        result: SubmissionFinished,
        run: _Run,
        requested: events.ConfirmationRequested,
    ) -> bool:
        is_score_right = result.outcome != "passed" or self._follows(
            result, run, requested.problem_number
        )
        compared = compare(requested.score_us, result)
        is_same = result.verdict == run.verdict and compared == (fact.code, fact.ratio)
        return is_score_right and is_same

    def rejudge(self, event: Recorded, fact: events.RejudgeRequested) -> None:
        """Which version the new results are for."""
        self._rejudges[last_token(event.envelope.agg)] = fact.to_number

    def judged(self, event: Recorded, fact: events.RejudgeJudged) -> None:
        """A new result must follow from a signed run just so."""
        number = self._rejudges.get(last_token(event.envelope.agg))
        if fact.submission in self._versions and number is not None:
            self._decided((fact.submission, number), event.seq, fact.result)

    def _decided(self, what: tuple[str, int], seq: int, fact: SubmissionFinished) -> None:
        """A result that may be ranked needs a run that is there, signed, and gives this score."""
        run = self._runs.pop(fact.run or "", None)
        self._faults.pop(what, None)
        # What is held for a time under its floor counts once it is released: looked at now.
        if not fact.is_eligible and (fact.code != BELOW_FLOOR or fact.score_us is None):
            return
        if run is None or run.order is not None:
            fault = Finding(seq, f"it counts, but no leased run {fact.run} ended before it")
            self._faults[what] = fault
        elif run.fault is not None:
            self._faults[what] = Finding(run.seq, run.fault.reason)
        elif not self._follows(fact, run, what[1]):
            fault = Finding(seq, f"its score does not follow from its run (event {run.seq})")
            self._faults[what] = fault
        elif fact.is_eligible and below(run.timed, self._floors[what[1]]):
            fault = Finding(seq, f"it counts, but its run (event {run.seq}) is under a floor")
            self._faults[what] = fault

    def _follows(self, fact: SubmissionFinished, run: _Run, number: int) -> bool:
        if run.verdict != "passed" or number not in self._rules:
            return False
        rule = self._rules[number]
        score = scored(rule, run.timed, run.sigma_run)
        if score is None or fact.score_us is None:
            return False
        made = [score.score_us, score.error, score.freedom, run.sigma_run, *score.process_us]
        said = [fact.score_us, fact.error, fact.freedom, fact.sigma_run, *fact.process_us]
        # The timing tier is in no signed event: what a tie may be is one of two.
        deltas = [
            tie_share(rule, run.timed, run.sigma_run, run.tie_us, tier) for tier in ("", "G1")
        ]
        return (
            len(made) == len(said)
            and all(map(_is_equal, made, said))
            and (fact.delta is None or any(_is_equal(fact.delta, delta) for delta in deltas))
        )


def _is_of_duel(run: _Run, duel: str, requested: events.DuelRequested) -> bool:
    """Whether a run was ordered for this duel, with its two sources."""
    order = run.order
    if order is None or order.rival is None or order.job != duel_job(duel):
        return False
    is_same = order.problem_digest == requested.problem_digest
    sources = requested.first.source.digest, requested.second.source.digest
    return is_same and (order.source.digest, order.rival.digest) == sources


def _is_repetition(
    run: _Run, job: str, requested: events.ConfirmationRequested, agent: str
) -> bool:
    """Whether a run was ordered for this confirmation, with its source, on another agent."""
    order = run.order
    if order is None or run.agent != agent or agent == requested.agent:
        return False
    ordered = order.job, order.problem_digest, order.source.digest
    return ordered == (job, requested.problem_digest, requested.item.source.digest)


def _is_equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=SCORE_TOLERANCE)


_MEANING: dict[str, Callable[[Witness, Recorded, Any], None]] = {
    "AgentEnrolled": Witness.enrolled,
    "AgentRevoked": Witness.revoked,
    "AgentRegistered": Witness.registered,
    "ProblemPublished": Witness.published,
    "SubmissionReceived": Witness.received,
    "JobLeased": Witness.leased,
    "JobAssigned": Witness.assigned,
    "RunStarted": Witness.started,
    "RunCompleted": Witness.completed,
    "SubmissionFinished": Witness.finished,
    "DuelRequested": Witness.duel_requested,
    "DuelJudged": Witness.duel_judged,
    "ConfirmationRequested": Witness.confirmation_requested,
    "ConfirmationJudged": Witness.confirmation_judged,
    "RejudgeRequested": Witness.rejudge,
    "RejudgeJudged": Witness.judged,
}
