"""The timed stage: fresh processes, cases in turn, and a null worker beside them."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from harness.messages import CaseReport, Progress
from harness.problem import Case
from harness.sandbox.box import SandboxFault
from harness.supervisor import batched, verdict
from harness.supervisor.calls import Gate
from harness.supervisor.guests import Guests
from harness.supervisor.inputs import Shape
from harness.supervisor.judging import Court
from harness.supervisor.purse import Purse
from harness.supervisor.structure import size_of
from harness.supervisor.team import Team
from harness.supervisor.verdict import CaseFailed
from harness.supervisor.warm_ups import WarmUps
from harness.timing import records
from harness.timing.combination import CaseTime, combine, figures
from harness.timing.estimators import quantile
from harness.timing.gates import settle
from harness.timing.history import History
from harness.timing.policy import Policy, policy_for
from harness.timing.procedure import measure
from harness.timing.process import Plan, Process
from harness.timing.source import CONTAMINATED, Sample
from harness.worker import protocol

# A stage that is to fit its budget plans with half of it: a machine can be slower than it was.
_SHARE = 0.5
_NULL_S_MAX = 60.0
_IN_PROCESS = "G0"
# A sample is contaminated when its worker was off its core for longer than a handshake explains.
_IDLE_SHARE_MAX = 0.02
_HANDSHAKE_US_MAX = 100.0
_WORK_MAX = 1.2
_SHARE_S_MIN = 0.05
_EXTRA_S_MIN = 2.0


@dataclass
class Clock:
    """What makes samples: the court, the shapes of the cases, and the seeds of their calls."""

    court: Court
    shapes: dict[str, list[Shape]]
    seeds: Callable[[Case], Iterator[int]]
    history: History
    going: dict[str, Iterator[int]] = field(default_factory=dict)

    def seeds_of(self, case: Case) -> Iterator[int]:
        """The seeds of a case, which go on from process to process: no call sees one twice."""
        if case.name not in self.going:
            self.going[case.name] = self.seeds(case)
        return self.going[case.name]

    def plan(self, case: Case, policy: Policy) -> Plan:
        """What the measurement of a case knows; null calls cost what the memories' sizes cost."""
        shapes, device = self.shapes[case.name], self.court.device
        sizes = [f"{size_of(one.inputs)}+{size_of(one.outputs)}" for one in shapes]
        calibration = device.calibration()
        return Plan(
            stepped(policy, calibration),
            self.history,
            " ".join(sizes),
            is_gated=device.tier != _IN_PROCESS,
            calibration=calibration,
        )


def stepped(policy: Policy, calibration: Mapping[str, float]) -> Policy:
    """The policy with the clock's step as it was measured, if it was.

    >>> policy = policy_for("cuda", "ranked")
    >>> stepped(policy, {"timer_step_ns": 1000.0}).timer_step_us, stepped(policy, {}) is policy
    (1.0, True)
    """
    step_ns = calibration.get("timer_step_ns", 0.0)
    return replace(policy, timer_step_us=step_ns / 1000) if step_ns > 0 else policy


@dataclass
class _Source:
    """One case in one fresh process, and the null worker beside it."""

    gate: Gate
    null_gate: Gate
    seeds: Iterator[int]
    court: Court
    purse: Purse
    work_us: list[float] = field(default_factory=list)
    nulls_us: list[float] = field(default_factory=list)

    def call(self) -> Sample:
        """One judged call of the submission. Errors: CaseFailed."""
        time_us = self.gate.call(next(self.seeds), self.purse.until())
        device = self.court.device
        # Elsewhere the worker is stopped while its work is under way.
        if device.name != "cpu":
            self.purse.spend(time_us)
            return Sample(time_us, device.flags)
        flags = (*device.flags, CONTAMINATED) if self._was_disturbed(time_us) else device.flags
        handshake_us = quantile(self.nulls_us, 0.1) if self.nulls_us else _HANDSHAKE_US_MAX
        lost_us = lost(self.gate.idle_us, self.gate.waited_us, handshake_us)
        self.purse.spend(time_us - lost_us)
        return Sample(time_us - lost_us, flags, lost_us)

    def null(self) -> Sample:
        """The same call of nothing. Errors: SandboxFault, for no submission is in it."""
        try:
            time_us = self.null_gate.null(next(self.seeds), time.monotonic() + _NULL_S_MAX)
        except CaseFailed as failure:
            raise SandboxFault(f"the null worker failed: {failure.message}") from failure
        self.nulls_us.append(time_us)
        return Sample(time_us, self.court.device.flags)

    def probe(self) -> float | None:
        """The platform's fixed work, done on the submission's core while that is frozen."""
        if self.court.device.tier != "C1" or not self.court.defences.has_bare_null:
            return None
        try:
            self.null_gate.team.thaw()
            self.null_gate.team.send(0, protocol.PROBE)
            said = self.null_gate.team.receive(0, time.monotonic() + _NULL_S_MAX, "")
            self.null_gate.team.freeze()
        except CaseFailed as failure:
            raise SandboxFault(f"the null worker failed: {failure.message}") from failure
        return float(said[1:])

    def reference(self, name: str) -> float:
        """One call of a reference kernel."""
        return self.court.device.reference(name)

    def _was_disturbed(self, time_us: float) -> bool:
        """Whether the core was taken away from a call that did no more work than others do.

        A submission decides itself when it waits, so a call that worked longer always counts.
        """
        work_us = time_us - self.gate.idle_us
        self.work_us.append(work_us)
        is_idle = self.gate.idle_us > _IDLE_SHARE_MAX * time_us + _HANDSHAKE_US_MAX
        if not self.court.defences.weighs_work:
            return is_idle
        return is_idle and work_us <= _WORK_MAX * median(self.work_us)


def lost(idle_us: float, waited_us: float, handshake_us: float) -> float:
    """How much of a call was lost to other processes of the machine, in microseconds.

    It is the time in which nothing of the submission ran although a worker wanted a core, beyond
    the waiting of every call. What a submission waits of its own accord is its time; and what its
    own processes take from each other is no time in which nothing ran.

    >>> lost(40.0, 3.0, 42.0), lost(1042.0, 900.0, 42.0), lost(1042.0, 5000.0, 42.0)
    (0.0, 900.0, 1000.0)
    >>> lost(5000.0, 0.0, 42.0)
    0.0
    """
    return max(0.0, min(idle_us - handshake_us, waited_us))


def clock_without_freezing(team: Team, credit_s: float) -> Callable[[], float]:
    """The monotonic clock less what stopping this team takes from now on, up to a credit.

    To stop a team is the platform's work, and must not take timed calls away from a submission;
    one that is slow to stop on purpose must not take all of the machine's time either.
    """
    before_s = team.freezing_s
    return lambda: time.monotonic() - min(credit_s, team.freezing_s - before_s)


class Timer:
    """Times every case in as many fresh processes as the mode asks for."""

    def __init__(
        self,
        guests: Guests,
        clock: Clock,
        warm_ups: WarmUps,
        mode: str,
        tell: Callable[[Progress], None],
    ) -> None:
        self._guests = guests
        self._warm_ups = warm_ups
        self._clock = clock
        self._mode = mode
        self._tell = tell
        self._policy = policy_for(clock.court.device.name, mode)
        self._plans: dict[str, Plan] = {}
        self._found: dict[str, list[Process]] = {}
        self._doubts: dict[str, str] = {}
        self._columns: dict[str, dict[str, float]] = {}
        self._records: dict[str, Any] = {}
        self.history = clock.history
        self.sigma_run = 0.0
        self.tie_us = 0.0

    def run(self, team: Team, cases: Sequence[Case], purse: Purse) -> list[CaseReport]:
        """How every case ended; `team` is one that has imported already.

        Errors: Noisy, SandboxFault, ProblemFault, DeviceFault.
        """
        self._found = {case.name: [] for case in cases}
        null, took_s = self._null()
        purse.pardon(took_s)
        count = self._policy.processes
        for number in range(count + self._policy.extra_processes):
            is_extra = number >= count
            wanted = [case for case in cases if self._is_split(case)] if is_extra else cases
            left = (1 if is_extra else count - number) * len(wanted)
            for done, case in enumerate(wanted):
                left_s = _SHARE * (purse.ends_at - time.monotonic())
                if is_extra and left_s < _EXTRA_S_MIN:
                    break
                if not is_extra:
                    total = count * len(cases)
                    self._tell(Progress("time", case.name, number * len(cases) + done, total))
                is_anew = count > 1 and done == 0
                fit = self._guests.renewed if is_anew else self._guests.fitted
                try:
                    team = fit(team, case.ranks, purse)
                    share_s = max(_SHARE_S_MIN, left_s / (left - done))
                    self._measure((team, null), case, purse, share_s)
                except CaseFailed as failure:
                    return [verdict.report(case.name, "time", failure)]
        for case in cases:
            self._note(case, self._batch(team, case, purse.until()))
        return self._reports(cases)

    def _is_split(self, case: Case) -> bool:
        """Whether the processes that would count differ too much, so that another is wanted."""
        values = [process.value_us for process in self._counted(case)]
        return max(values) > (1 + self._policy.spread_max) * min(values)

    def _counted(self, case: Case) -> list[Process]:
        """As many processes as the policy asks for: of more than these the fastest."""
        found = self._found[case.name]
        fastest = sorted(found, key=lambda process: process.value_us)[: self._policy.processes]
        return [process for process in found if process in fastest]

    def _note(self, case: Case, found: dict[str, float]) -> None:
        """Of what several processes say the largest is shown."""
        noted = self._columns.setdefault(case.name, {})
        for name, value in found.items():
            noted[name] = max(value, noted.get(name, value))

    def _null(self) -> tuple[Team, float]:
        """A null team, and how long it took to come; what keeps it is no submission's fault."""
        began = time.monotonic()
        try:
            # On a GPU a null call passes the gate, and a team that cannot be frozen must sleep.
            is_bare = self._clock.court.device.tier == "C1"
            team = self._guests.start_null(is_bare=is_bare)
            self._guests.welcome(team, began + _NULL_S_MAX)
            team.freeze()
        except CaseFailed as failure:
            raise SandboxFault(f"no null worker came: {failure.message}") from failure
        return team, time.monotonic() - began

    def record(self) -> bytes:
        """Every sample of every case, compressed."""
        return records.compressed(self._records)

    def _measure(self, teams: tuple[Team, Team], case: Case, purse: Purse, share_s: float) -> None:
        """One case in one process. Errors: CaseFailed, Noisy."""
        court, shapes = self._clock.court, self._clock.shapes[case.name]
        policy = policy_for(court.device.name, self._mode, share_s)
        plan = self._plans[case.name] = self._clock.plan(case, policy)
        with ExitStack() as stack:
            gate, null_gate = (
                stack.enter_context(Gate(court, team, case, shapes)) for team in teams
            )
            self._warm_ups.warm_up(gate, purse)
            source = _Source(gate, null_gate, self._clock.seeds_of(case), court, purse)
            # Nothing of the submission runs beside a null call.
            teams[0].freeze()
            process = settle(
                lambda: measure(
                    source,
                    plan,
                    clock_without_freezing(teams[0], policy.wall_s),
                    secrets.randbelow,
                ),
                plan,
                court.device.unfit,
                time.sleep,
            )
            inputs, _ = gate.memories[0]
            self._note(case, court.device.statistics(inputs))
            if doubt := court.device.suspicion(inputs, process.null_spread_us):
                self._doubts[case.name] = doubt
        self._found[case.name].append(process)
        self.history = self.history.with_pass(
            process.references, plan.shape, process.null_us, process.probe_us
        )

    def _batch(self, team: Team, case: Case, deadline: float) -> dict[str, float]:
        """What is shown beside a short case. A native submission is given one set at a time."""
        if "launch" in self._guests.given:
            return {}
        clock, process = self._clock, self._found[case.name][-1]
        seeds, shape = clock.seeds_of(case), clock.shapes[case.name][0]
        short = batched.Short(case, shape, seeds, process.value_us, process.null_us)
        return batched.measure(clock.court, team, short, deadline)

    def _reports(self, cases: Sequence[Case]) -> list[CaseReport]:
        times = {}
        for case in cases:
            found = self._counted(case)
            stagger_us = self._columns.get(case.name, {}).get("stagger_us", 0.0)
            plan = replace(self._plans[case.name], stagger_us=stagger_us)
            times[case.name] = combine(found, plan)
            dropped = [process for process in self._found[case.name] if process not in found]
            self._records[case.name] = records.record(found, times[case.name], dropped)
        self.sigma_run, self.tie_us = figures(list(times.values()))
        return [self._report(case, times[case.name]) for case in cases]

    def _report(self, case: Case, found: CaseTime) -> CaseReport:
        doubt = self._doubts.get(case.name, "")
        report = verdict.timed(case.name, case.floor_us, found, doubt)
        more = self._columns.get(case.name, {})
        return replace(report, statistics=report.statistics | more)
