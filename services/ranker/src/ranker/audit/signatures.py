"""Verifies that the results on a leaderboard follow from runs signed by enrolled agents."""

from collections.abc import Iterable, Mapping
from math import isclose
from typing import NamedTuple, TypeAlias, assert_never, get_args

from harness.vocabulary import DUEL
from ranker.domain.conclusion import Fault, RunOrigin, compare_repetition, find_fault
from ranker.domain.goals import HELD_WITH_SCORE, case_floors_us, find_below_floor
from ranker.domain.score import compute_score, tie_share
from ranker.domain.standings import RepetitionFact
from ranker.domain.stored_log import Verify
from ranker.domain.yardsticks import (
    MeasuredRun,
    convert_times,
    is_first_run,
    median_times,
    restate_scores,
    yardstick_score_us,
)
from shared import events
from shared.api.audits import Finding
from shared.event_log import RecordedEvent
from shared.events import HARNESS_CODE, SubmissionFinished
from shared.subjects import history_of, job_id_of, last_token
from shared.wire import is_genuine

# The logarithm of another machine may differ in the last bits.
SCORE_TOLERANCE = 1e-9
CheckedFact: TypeAlias = (
    events.AgentEnrolled
    | events.AgentRevoked
    | events.AgentRegistered
    | events.ProblemPublished
    | events.SubmissionReceived
    | events.SubmissionFinished
    | events.YardstickFixed
    | events.JobLeased
    | events.JobAssigned
    | events.RunStarted
    | events.RunCompleted
    | RepetitionFact
)
_FOLDED = frozenset(kind.__name__ for kind in get_args(CheckedFact))


class _Run(NamedTuple):
    """A run of this leaderboard: its verdict's event, its fault if any, and its times."""

    submission: str
    seq: int
    fault: Fault | None
    verdict: str
    timed: tuple[events.CaseResult, ...]
    sigma_run: float
    tie_us: float
    order: events.JobAssigned | None = None
    duel: events.DuelResult | None = None
    agent: str = ""
    has_doubts: bool = False
    is_stopped: bool = False
    is_over_limit: bool = False


class ResultVerifier:
    """Verifies the runs behind one leaderboard while the log is folded."""

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
        self._practice: set[str] = set()
        self._rejudges: dict[str, int] = {}
        self._drafts: dict[str, dict[tuple[str, int], Finding | None]] = {}
        self._submissions: dict[str, str] = {}
        self._orders: dict[str, events.JobAssigned] = {}
        self._duels: dict[str, events.DuelRequested] = {}
        self._duel_faults: dict[tuple[int, frozenset[str]], Finding] = {}
        self._confirmations: dict[str, events.ConfirmationRequested] = {}
        self._confirmation_faults: dict[tuple[str, int], Finding] = {}
        self._fixed_us: dict[int, dict[str, float]] = {}
        self._first_runs: dict[int, dict[str, MeasuredRun]] = {}
        self._yardstick_faults: dict[int, Finding] = {}

    def findings(self, counting: Iterable[str], number: int) -> list[Finding]:
        """The findings on the results of these submissions under a problem version."""
        results = (self._faults.get((submission, number)) for submission in counting)
        duels = (fault for (version, _), fault in self._duel_faults.items() if version == number)
        repeated = (
            fault for (_, version), fault in self._confirmation_faults.items() if version == number
        )
        unit = [self._yardstick_faults[number]] if number in self._yardstick_faults else []
        return [*(fault for fault in results if fault is not None), *duels, *repeated, *unit]

    def fold(self, event: RecordedEvent) -> None:  # noqa: C901, PLR0912  (one case for each event)
        """Fold the next event."""
        if event.envelope.type not in _FOLDED or not is_genuine(event.envelope):
            return
        fact, id_ = event.fact, last_token(event.envelope.aggregate)
        assert isinstance(fact, CheckedFact), "a type names its class"
        match fact:
            case events.JobLeased():
                # Only the run that it names counts, and only from its agent.
                self._leased[fact.run] = f"run.{fact.agent}.{fact.run}"
            case events.JobAssigned():
                self._take_order(event, fact)
            case events.RunStarted():
                # The key that a run committed to first.
                aggregate = history_of(event.envelope.aggregate)
                if aggregate in self._tokens:
                    self._key_commits.setdefault(aggregate, fact.key_commit)
            case events.RunCompleted():
                self._verify_run(event, fact)
            case events.SubmissionReceived():
                if (fact.problem, fact.gpu) == (self._problem, self._gpu):
                    self._versions[id_] = fact.problem_number
                    if fact.is_practice:
                        self._practice.add(id_)
            case SubmissionFinished():
                if id_ in self._versions:
                    self._check_result((id_, self._versions[id_]), event.seq, fact)
            case events.YardstickFixed():
                self._check_yardstick(event.seq, fact)
            case events.AgentEnrolled():
                self._keys[id_] = fact.sign_key
            case events.AgentRevoked():
                self._keys[id_] = None
            case events.AgentRegistered():
                # The harness code that it runs from now on.
                self._harness_codes[id_] = fact.details.get(HARNESS_CODE, "")
            case events.ProblemPublished():
                self._take_version(id_, fact)
            case _:
                self._check_repetition(event, id_, fact)

    def _check_repetition(  # noqa: C901  (one case for each event)
        self, event: RecordedEvent, id_: str, fact: RepetitionFact
    ) -> None:
        match fact:
            case events.DuelRequested():
                if (fact.problem, fact.gpu) == (self._problem, self._gpu):
                    self._duels.setdefault(id_, fact)
            case events.DuelJudged():
                self._check_duel(event.seq, id_, fact)
            case events.ConfirmationRequested():
                if (fact.problem, fact.gpu) == (self._problem, self._gpu):
                    self._confirmations.setdefault(job_id_of(id_), fact)
            case events.ConfirmationJudged():
                self._check_confirmation(event.seq, job_id_of(id_), fact)
            case events.RejudgeRequested():
                self._rejudges[id_] = fact.to_number
            case events.RejudgeJudged():
                number = self._rejudges.get(id_)
                if fact.submission in self._versions and number is not None:
                    self._check_draft(id_, (fact.submission, number), event.seq, fact.result)
            case events.RejudgeApplied():
                self._apply_drafts(id_)
            case events.RejudgeDiscarded():
                self._drafts.pop(id_, None)
            case _:
                assert_never(fact)

    def _take_version(self, problem: str, fact: events.ProblemPublished) -> None:
        if problem == self._problem:
            self._rules[fact.number] = fact.ranking_by
            self._floors[fact.number] = case_floors_us(fact.roofs, self._gpu)

    def _take_order(self, event: RecordedEvent, fact: events.JobAssigned) -> None:
        """Record the order, whose sequence the agent's signature covers."""
        aggregate = event.envelope.aggregate
        if self._leased.get(last_token(aggregate)) != aggregate:
            return
        if fact.submission in self._versions and fact.mode in ("ranked", DUEL):
            self._tokens[aggregate] = event.seq
            self._submissions[aggregate] = fact.submission
            if fact.mode == DUEL or fact.job in self._confirmations:
                self._orders[aggregate] = fact
        else:
            del self._leased[last_token(aggregate)]

    def _verify_run(self, event: RecordedEvent, fact: events.RunCompleted) -> None:
        """Check the verdict now, so that its bytes need not be stored."""
        aggregate = history_of(event.envelope.aggregate)
        token, key_commit = (
            self._tokens.pop(aggregate, None),
            self._key_commits.pop(aggregate, None),
        )
        order, submission = self._orders.pop(aggregate, None), self._submissions.pop(aggregate, "")
        run = last_token(aggregate)
        if token is None or self._leased.pop(run, None) != aggregate:
            return
        agent = aggregate.split(".")[1]
        sign_key, code = self._keys.get(agent), self._harness_codes.get(agent, "")
        origin = RunOrigin(agent, run, token, sign_key, key_commit, code)
        fault = find_fault(event.envelope, fact.key, fact.environment, origin, self._verify)
        self.verified += fault is None
        if fault is not None:
            self.refused.append(Finding(event.seq, fault.reason))
        timed = tuple(case for case in fact.cases if case.stage == "time")
        spread = fact.sigma_run, fact.tie_us
        self._runs[run] = _Run(
            submission,
            event.seq,
            fault,
            fact.verdict,
            timed,
            *spread,
            order,
            fact.duel,
            agent,
            fact.composition is not None and bool(fact.composition.doubts),
            bool(fact.stopped),
            bool(fact.over_limit),
        )

    def _check_duel(self, seq: int, duel: str, fact: events.DuelJudged) -> None:
        requested = self._duels.pop(duel, None)
        run = self._runs.pop(fact.run or "", None)
        if requested is None or fact.result is None or fact.result.ratio is None:
            return
        sources = frozenset((requested.first.pooling_digest, requested.second.pooling_digest))
        pair = requested.problem_number, sources
        self._duel_faults.pop(pair, None)
        if run is None:
            reason = f"it orders two entries, but no leased run {fact.run} ended before it"
            self._duel_faults[pair] = Finding(seq, reason)
        elif run.fault is not None:
            self._duel_faults[pair] = Finding(run.seq, run.fault.reason)
        elif not _is_of_duel(run, duel, requested) or run.duel != fact.result:
            reason = f"its winner does not follow from its run (event {run.seq})"
            self._duel_faults[pair] = Finding(seq, reason)

    def _check_confirmation(self, seq: int, job: str, fact: events.ConfirmationJudged) -> None:
        requested = self._confirmations.pop(job, None)
        result = fact.result
        if requested is None or result is None:
            return
        run = self._runs.pop(result.run or "", None)
        entry = job, requested.problem_number
        if run is None or run.order is None:
            reason = f"its confirmation names run {result.run}, which no lease gave to an agent"
            self._confirmation_faults[entry] = Finding(seq, reason)
        elif run.fault is not None:
            self._confirmation_faults[entry] = Finding(run.seq, run.fault.reason)
        elif not (
            _is_repetition(run, job, requested, fact.agent)
            and result.verdict == run.verdict
            and compare_repetition(requested.score_us, requested.yardstick_us, result)
            == (fact.code, fact.ratio)
            and (result.outcome != "passed" or self._follows(result, run, requested.problem_number))
        ):
            reason = f"its confirmation does not follow from its run (event {run.seq})"
            self._confirmation_faults[entry] = Finding(seq, reason)

    def _check_result(self, key: tuple[str, int], seq: int, fact: SubmissionFinished) -> None:
        """Check that a rankable result has a signed run that gives this score."""
        run = self._runs.pop(fact.run or "", None)
        self._note_first_run(key, fact, run)
        self._set_fault(key, self._find_fault(key, seq, fact, run))

    def _check_draft(
        self, rejudge: str, key: tuple[str, int], seq: int, fact: SubmissionFinished
    ) -> None:
        """Check the result of a rejudge, which counts once the rejudge is applied."""
        run = self._runs.pop(fact.run or "", None)
        drafts = self._drafts.setdefault(rejudge, {})
        # Where the platform failed, the earlier result stays.
        if fact.outcome != "infra_failed":
            drafts[key] = self._find_fault(key, seq, fact, run)

    def _apply_drafts(self, rejudge: str) -> None:
        for key, fault in self._drafts.pop(rejudge, {}).items():
            self._set_fault(key, fault)

    def _set_fault(self, key: tuple[str, int], fault: Finding | None) -> None:
        if fault is None:
            self._faults.pop(key, None)
        else:
            self._faults[key] = fault

    def _find_fault(
        self, key: tuple[str, int], seq: int, fact: SubmissionFinished, run: _Run | None
    ) -> Finding | None:
        # A result held with its score counts once it is released, so it is checked now.
        is_held = fact.code in HELD_WITH_SCORE and fact.score_us is not None
        if not fact.is_eligible and not is_held:
            return None
        if run is None or run.order is not None or run.submission != key[0]:
            return Finding(seq, f"it counts, but no leased run {fact.run} ended before it")
        if run.fault is not None:
            return Finding(run.seq, run.fault.reason)
        if not self._follows(fact, run, key[1]):
            return Finding(seq, f"its score does not follow from its run (event {run.seq})")
        problem = self._find_objection(run, key[1]) if fact.is_eligible else ""
        if fact.is_eligible and key[0] in self._practice:
            problem = "came after the deadline, for practice"
        return (
            Finding(seq, f"it counts, but its run (event {run.seq}) {problem}") if problem else None
        )

    def _find_objection(self, run: _Run, number: int) -> str:
        """Why a run may not be ranked without a decision, "" if it may."""
        if self._is_below_floor(run, number):
            return "is under a floor"
        if run.is_stopped:
            return "stopped early"
        if run.is_over_limit:
            return "is over a limit of its problem"
        return "needed a review" if run.has_doubts else ""

    def _is_below_floor(self, run: _Run, number: int) -> bool:
        timed = convert_times(run.timed, self._fixed_us.get(number))
        return find_below_floor(timed, self._floors[number]) is not None

    def _note_first_run(
        self, key: tuple[str, int], fact: SubmissionFinished, run: _Run | None
    ) -> None:
        """Remember a run that was scored before the yardstick of its leaderboard was fixed."""
        submission, number = key
        if run is not None and number not in self._fixed_us and is_first_run(fact):
            self._first_runs.setdefault(number, {})[fact.run or ""] = self._measured(
                submission, fact.run or "", run, number
            )

    def _measured(self, submission: str, name: str, run: _Run, number: int) -> MeasuredRun:
        rule = self._rules.get(number, "")
        return MeasuredRun(submission, name, rule, run.timed, run.sigma_run, run.tie_us, "")

    def _check_yardstick(self, seq: int, fact: events.YardstickFixed) -> None:
        """Check that the fixed times are those of signed runs, and the scores restated in them."""
        number = fact.problem_number
        is_of_board = (fact.problem, fact.gpu) == (self._problem, self._gpu)
        if not is_of_board or number in self._fixed_us:
            return  # The first one stays.
        self._fixed_us[number] = fact.times_us
        first_runs = self._first_runs.pop(number, {})
        named = [self._find_first_run(name, first_runs, number) for name in fact.runs]
        known = [run for run in named if run is not None]
        if len(known) < len(named) or median_times(known) != fact.times_us:
            reason = "its yardstick's times do not follow from the runs that it names"
            self._yardstick_faults[number] = Finding(seq, reason)
        restated = restate_scores(list(first_runs.values()), fact.times_us)
        stated = {score.run: score for score in fact.restated}
        if stated.keys() != {score.run for score in restated} or not all(
            _is_equal(score.score_us, stated[score.run].score_us)
            and all(map(_is_equal, score.process_us, stated[score.run].process_us))
            for score in restated
        ):
            reason = "the scores that it restates do not follow from their runs"
            self._yardstick_faults[number] = Finding(seq, reason)

    def _find_first_run(
        self, name: str, first_runs: Mapping[str, MeasuredRun], number: int
    ) -> MeasuredRun | None:
        """The run that a fixed yardstick names: scored earlier, or decided with it."""
        run = self._runs.get(name)
        if run is None or run.fault is not None:
            return first_runs.get(name)
        return self._measured("", name, run, number)

    def _follows(self, fact: SubmissionFinished, run: _Run, number: int) -> bool:
        if run.verdict != "passed" or number not in self._rules:
            return False
        rule = self._rules[number]
        timed = convert_times(run.timed, self._fixed_us.get(number))
        score = compute_score(rule, timed, run.sigma_run)
        if score is None or fact.score_us is None:
            return False
        computed = [score.score_us, score.error, score.freedom, run.sigma_run, *score.process_us]
        stated = [fact.score_us, fact.error, fact.freedom, fact.sigma_run, *fact.process_us]
        computed.append(yardstick_score_us(rule, timed))
        stated.append(fact.yardstick_us)
        # No signed event has the timing tier: the tie share may be either of two.
        deltas = [tie_share(rule, timed, score, run.tie_us, tier) for tier in ("", "G1")]
        return (
            len(computed) == len(stated)
            and all(map(_is_equal, computed, stated))
            and (fact.delta is None or any(_is_equal(fact.delta, delta) for delta in deltas))
        )


def _is_of_duel(run: _Run, duel: str, requested: events.DuelRequested) -> bool:
    order = run.order
    if order is None or order.rival is None or order.job != job_id_of(duel):
        return False
    is_same = order.problem_digest == requested.problem_digest
    sources = requested.first.source.digest, requested.second.source.digest
    return is_same and (order.source.digest, order.rival.digest) == sources


def _is_repetition(
    run: _Run, job: str, requested: events.ConfirmationRequested, agent: str
) -> bool:
    """Whether a run was ordered for this confirmation, with its source, on another agent."""
    order = run.order
    if order is None or run.agent != agent:
        return False
    if agent in (requested.agent, *requested.other_agents):
        return False
    ordered = order.job, order.problem_digest, order.source.digest
    return ordered == (job, requested.problem_digest, requested.item.source.digest)


def _is_equal(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return isclose(first, second, rel_tol=SCORE_TOLERANCE)
