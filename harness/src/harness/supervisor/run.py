"""A run from its request to its report: build, check, time."""

import functools
import hashlib
import itertools
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from harness.devices import cpu
from harness.devices.device import DeviceFault
from harness.messages import (
    DUEL,
    SIDES,
    STAGES,
    VERSION,
    Artefact,
    CaseReport,
    DuelReport,
    Progress,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
    failed,
)
from harness.problem import Case, MemoryShortage, ProblemFault
from harness.sandbox.box import Launcher, SandboxFault
from harness.sandbox.spec import WALLS, level_of
from harness.supervisor import building, driven, memory, shapes, verdict
from harness.supervisor.author import Author, is_shortage
from harness.supervisor.calls import Gate
from harness.supervisor.compat import Compat
from harness.supervisor.defences import ALL, Defences
from harness.supervisor.duel import Duel, Side, SideFailed, require_walls
from harness.supervisor.guests import Guests, Place
from harness.supervisor.home import Home
from harness.supervisor.inputs import KEY_BYTES, Shape, seed_of
from harness.supervisor.judging import Court
from harness.supervisor.outfit import fitted, opened, outfit
from harness.supervisor.profiled import Profiler
from harness.supervisor.purse import Purse
from harness.supervisor.team import Team
from harness.supervisor.timed import Clock, Timer
from harness.supervisor.verdict import CaseFailed
from harness.supervisor.warm_ups import WARM_UP, WarmUps
from harness.supervisor.warmth import Warmer
from harness.timing.gates import Noisy
from harness.toolchains.cache import Cache
from harness.toolchains.command import BUILD_S_MAX
from harness.toolchains.plan import Workshop

_OLDEST = "compute_75"
_TIMED = ("time", DUEL)

Tell = Callable[[Started | Progress | StageFinished], None]


@dataclass(frozen=True)
class Machine:
    """Where runs happen: how workers are started here, and within which walls."""

    launcher: Launcher
    walls: tuple[str, ...]
    workshop: Workshop
    cache: Cache
    defences: Defences = ALL

    @property
    def level(self) -> str:
        """What these walls make."""
        return level_of(self.walls)

    @property
    def hides_network(self) -> bool:
        """Whether a run can be put, and is, into an empty network namespace."""
        return "namespaces" in self.walls and self.defences.hides_network

    @property
    def missing(self) -> list[str]:
        """The walls that are not there."""
        return [wall for wall in WALLS if wall not in self.walls]


def execute(request: RunRequest, home: Home, machine: Machine, tell: Tell) -> RunReport:
    """One run in this process; nothing of its workers is left when this returns."""
    began = time.monotonic()
    usage: dict[str, float] = {}
    try:
        run = _run(request, home, machine, tell)
        try:
            report = run.execute()
        finally:
            usage = run.guests.usage()
    except ProblemFault as fault:
        report = failed("problem_fault", verdict.printable(str(fault)))
    except SandboxFault as fault:
        report = failed("sandbox", str(fault))
    except DeviceFault as fault:
        report = failed("device", str(fault))
    except Noisy as noisy:
        report = failed("noisy", str(noisy))
    except MemoryShortage as shortage:
        report = failed("memory", verdict.printable(str(shortage)))
    except (MemoryError, RuntimeError) as error:
        if not is_shortage(error):
            raise
        report = failed("memory", "this machine has too little memory left for the run")
    took_s = time.monotonic() - began
    return replace(report, took_s=took_s, usage=usage | {"wall_s": took_s})


def _run(request: RunRequest, home: Home, machine: Machine, tell: Tell) -> "_Run | Compat":
    """A run by our harness, or by the problem's own program. Errors: as every run's."""
    if request.mode == DUEL:
        return _DuelRun(request, home, machine, tell)
    if not home.problem.main:
        return _Run(request, home, machine, tell)
    given = outfit(request.device, home.problem.ranks, request.gpus)
    if request.device == "cpu":
        memory.offer(home.problem, given.limits)
    # Nobody has asked the GPU what it is: what is built for the oldest is fitted when it is loaded.
    workshop = fitted(machine.workshop, _OLDEST if request.device == "cuda" else "")
    cores, defences = _share_cores(), machine.defences
    place = Place(machine.launcher, machine.walls, workshop, cores, given, defences)
    return Compat(request, home, Guests(place, home, request.mode, 1), machine.level, tell)


class _Run:
    """What one run knows: its request and its key, and the cases it has judged so far."""

    def __init__(self, request: RunRequest, home: Home, machine: Machine, tell: Tell) -> None:
        self._request = request
        self._home = home
        self._problem = home.problem
        self._machine = machine
        self._tell = tell
        self._key = bytes.fromhex(request.key) if request.key else secrets.token_bytes(KEY_BYTES)
        self._shapes: dict[str, list[Shape]] = {}
        self._cases: list[CaseReport] = []
        self._figures = 0.0, 0.0
        self._artefacts: list[Artefact] = []
        self._steps = {
            "build": self._build,
            "check": self._judge_all,
            "hidden_check": self._judge_all,
            "timed_check": self._judge_all,
            "time": self._time,
            "profile": self._profile,
        }
        self._stage = ""
        self._has_left = False
        self._first_failed: CaseReport | None = None
        ranks, cores = max((one.ranks for one in self._every_case()), default=1), _share_cores()
        self._warmer = Warmer(cores[0] if cores and _is_timed(request.mode) else None)
        given = outfit(request.device, ranks, request.gpus)
        # A GPU's memory is not the machine's: an allocation there fails by itself.
        is_cpu = request.device == "cpu"
        self._offer = memory.offer(self._problem, given.limits) if is_cpu else None
        # After the fork of the warmer, which must not inherit a GPU's context.
        self._device = opened(request.device, given, machine.walls, machine.defences)
        workshop = fitted(machine.workshop, self._device.architecture)
        place = Place(machine.launcher, machine.walls, workshop, cores, given, machine.defences)
        self.guests = Guests(place, home, request.mode, ranks)
        seeds = functools.partial(self._seeds, WARM_UP)
        self._warm_ups = WarmUps(seeds, self.guests.import_s)

    def execute(self) -> RunReport:
        """The stages in order, until one does not pass. Errors: those of problem and machine."""
        try:
            self._tell(self._started())
            self._run_stages()
        finally:
            try:
                self.guests.end()
            except CaseFailed as failure:
                self._has_left = True
                self._first_failed = verdict.report("", self._stage, failure)
            finally:
                self._device.close()
                self._warmer.close()
                self._home.keep("log.txt", self.guests.log.whole().encode())
        return self._report()

    def _every_case(self) -> Iterator[Case]:
        mode = self._request.mode
        for stage in STAGES[mode]:
            yield from self._problem.cases(stage, mode)

    def _started(self) -> Started:
        return Started(
            harness=VERSION,
            level=self._machine.level,
            tier=self._device.tier,
            key_commit=hashlib.sha256(self._key).hexdigest(),
            environment=cpu.describe() | self._device.describe(),
            missing=self._machine.missing,
        )

    def _run_stages(self) -> None:
        for stage in STAGES[self._request.mode]:
            began = time.monotonic()
            self._stage = stage
            purse = Purse(self._problem.budget_s(stage, self._request.mode))
            cases = self._steps[stage](stage, purse)
            self._cases += [case for case in cases if stage != "build"]
            self._first_failed = verdict.first_failed(cases)
            ended = self._first_failed.verdict if self._first_failed else "passed"
            self._tell(StageFinished(stage, ended, time.monotonic() - began, len(cases)))
            if self._first_failed:
                return

    def _build(self, _: str, purse: Purse) -> list[CaseReport]:
        """While the worker loads the submission, the shapes of all cases are found out."""
        try:
            began = time.monotonic()
            building.prepare(self.guests, self._machine.cache, began + BUILD_S_MAX)
            # What a compiler took is not taken from the import.
            purse.pardon(time.monotonic() - began)
            self._team = self.guests.start(next((case.ranks for case in self._every_case()), 1))
            self._look_around()
            self.guests.welcome(self._team, purse.ends_at)
        except CaseFailed as failure:
            return [verdict.report("", "build", failure)]
        return []

    def _look_around(self) -> None:
        """Call the author's code for the first time, as far as the memory of the machine goes."""
        if self._offer is not None:
            self._offer.limit()
        workshop, cache = self.guests.place.workshop, self._machine.cache
        native = functools.partial(driven.functions, self._home, workshop, cache)
        author = Author(self._problem, self._home.mark, self._device.name, native)
        self._court = Court(author, self._device, self._warmer, self._machine.defences)
        is_checked = self._problem.is_checked
        cases = self._every_case()
        try:
            self._shapes = shapes.of_cases(self._court, cases, self._key, is_checked=is_checked)
        except (MemoryError, MemoryShortage, RuntimeError) as error:
            if self._offer is not None and is_shortage(error):
                self._require_estimates(self._offer)
            raise
        if self._offer is not None:
            self._require_memory(self._offer)

    def _require_estimates(self, offer: memory.MemoryOffer) -> None:
        """Raise MemoryShortage with figures for a case whose shapes there was no memory for."""
        author, mode = self._court.author, self._request.mode
        for stage in STAGES[mode]:
            for case in self._problem.cases(stage, mode):
                if sizes := memory.estimate(author, case):
                    offer.require(case, [sizes], is_timed=stage in _TIMED)

    def _require_memory(self, offer: memory.MemoryOffer) -> None:
        """Raise MemoryShortage before the submission sees a case that this machine cannot run."""
        shared = 0
        mode = self._request.mode
        for stage in STAGES[mode]:
            for case in self._problem.cases(stage, mode):
                found = [memory.sizes_of(shape) for shape in self._shapes[case.name]]
                is_timed = stage in _TIMED
                offer.require(case, found, is_timed=is_timed)
                shared = max(shared, memory.shared_bytes(found, is_timed=is_timed))
        offer.limit(shared)

    def _judge_all(self, stage: str, purse: Purse) -> list[CaseReport]:
        """Every case of a stage; those after the worker's end are skipped."""
        cases = self._problem.cases(stage, self._request.mode)
        reports: list[CaseReport] = []
        is_over = False
        for done, case in enumerate(cases):
            report = CaseReport(case.name, stage, "skipped")
            if not is_over:
                self._tell(Progress(stage, case.name, done, len(cases)))
                report, is_over = self._judge(stage, case, purse)
            reports.append(verdict.hidden(report) if stage == "hidden_check" else report)
        return reports

    def _judge(self, stage: str, case: Case, purse: Purse) -> tuple[CaseReport, bool]:
        """One case, and whether the worker is of no more use."""
        seeds = self._seeds(stage, case)
        try:
            self._team = self.guests.fitted(self._team, case.ranks, purse)
        except CaseFailed as failure:
            return verdict.report(case.name, stage, failure), True
        try:
            with Gate(self._court, self._team, case, self._shapes[case.name]) as gate:
                self._warm_ups.warm_up(gate, purse)
                for _ in range(self._problem.calls):
                    purse.spend(gate.call(next(seeds), purse.until()))
        except CaseFailed as failure:
            return verdict.report(case.name, stage, failure), failure.is_last
        return CaseReport(case.name, stage, "passed"), False

    def _time(self, _: str, purse: Purse) -> list[CaseReport]:
        cases = self._problem.cases("time", self._request.mode)
        seeds = functools.partial(self._seeds, "time")
        clock = Clock(self._court, self._shapes, seeds, self._home.history())
        timer = Timer(self.guests, clock, self._warm_ups, self._request.mode, self._tell)
        try:
            return timer.run(self._team, cases, purse)
        finally:
            self._figures = timer.sigma_run, timer.tie_us
            self._home.keep("samples.json.gz", timer.record())
            self._home.leave_history(timer.history)

    def _profile(self, stage: str, purse: Purse) -> list[CaseReport]:
        """Every timed case once more under the profiler, in the worker that was checked."""
        reports: list[CaseReport] = []
        profiler = Profiler(self._court, self.guests, self._warm_ups)
        self._artefacts = profiler.artefacts
        cases = self._problem.cases(stage, self._request.mode, self._request.case)
        for number, case in enumerate(cases):
            seeds = self._seeds(stage, case)
            try:
                self._team = self.guests.fitted(self._team, case.ranks, purse)
                profiler.warm(self._team, purse.ends_at)
                profiler.run(case, number, (self._shapes[case.name], seeds), purse)
            except CaseFailed as failure:
                return [*reports, verdict.report(case.name, stage, failure)]
            reports.append(CaseReport(case.name, stage, "passed"))
        return reports

    def _seeds(self, stage: str, case: Case) -> Iterator[int]:
        """A seed for each call; a checked case begins with the published one, to be repeated."""
        bits = self._shapes[case.name][0].seed_bits
        for call in itertools.count():
            if stage == "check" and call == 0 and case.seed is not None:
                yield case.seed
            else:
                at = call if self._machine.defences.has_fresh_inputs else 0
                yield seed_of(self._key, stage, case.name, at, bits)

    def _report(self) -> RunReport:
        head, tail = self.guests.log.ends()
        failure = self._first_failed
        return RunReport(
            verdict=failure.verdict if failure else "passed",
            stage=self._stage,
            reason=verdict.sentence(failure),
            took_s=0.0,
            key=self._key.hex(),
            cases=self._cases,
            log_head=head,
            log_tail=tail,
            log_bytes=self.guests.log.bytes,
            artefacts=self._artefacts,
            sigma_run=self._figures[0],
            tie_us=self._figures[1],
            has_left=self._has_left,
        )


class _DuelRun(_Run):
    """A run of two submissions: each is built and checked, then both are timed in alternation.

    A is the request's source, whose log and usage are the run's; B is its rival.
    """

    def __init__(self, request: RunRequest, home: Home, machine: Machine, tell: Tell) -> None:
        if home.problem.main:
            raise ProblemFault("a problem that times its submissions itself has no duels")
        if home.rival is None:
            raise ProblemFault("a duel needs two submissions: name the rival")
        super().__init__(request, home, machine, tell)
        rival = Guests(self.guests.place, home.rival, request.mode, self.guests.ranks)
        self._all_guests = dict(zip(SIDES, (self.guests, rival), strict=True))
        self._teams: dict[str, Team] = {}
        self._duel: DuelReport | None = None
        self._steps |= {
            "check": self._judge_both,
            "hidden_check": self._judge_both,
            DUEL: self._time_both,
        }

    def execute(self) -> RunReport:
        try:
            report = replace(super().execute(), duel=self._duel)
        finally:
            self._end_rival()
        if self._duel is not None and self._duel.failed:
            report = replace(report, reason=f"submission {self._duel.failed}: {report.reason}")
        return report

    def _end_rival(self) -> None:
        """Leave nothing of B; its end cannot fail without a process of it that lives on."""
        rival = self._all_guests["B"]
        try:
            rival.end()
        except CaseFailed as failure:
            raise SandboxFault(failure.message) from failure
        finally:
            self._home.keep("rival-log.txt", rival.log.whole().encode())

    def _build(self, stage: str, purse: Purse) -> list[CaseReport]:
        require_walls(self.guests.place)
        # No cache is open any more once the author's code is there.
        for name, guests in self._all_guests.items():
            began = time.monotonic()
            is_last = name == SIDES[-1]
            cache = self._machine.cache
            try:
                building.prepare(guests, cache, began + BUILD_S_MAX, is_last=is_last)
            except CaseFailed as failure:
                return self._fail(name, verdict.report("", stage, failure))
            purse.pardon(time.monotonic() - began)
        ranks = next((case.ranks for case in self._every_case()), 1)
        for name, guests in self._all_guests.items():
            began = time.monotonic()
            self._teams[name] = guests.start(ranks)
            if not self._shapes:
                self._look_around()
            try:
                guests.welcome(self._teams[name], began + purse.left_s)
                self._teams[name].freeze()
            except CaseFailed as failure:
                return self._fail(name, verdict.report("", stage, failure))
        return []

    def _judge_both(self, stage: str, purse: Purse) -> list[CaseReport]:
        reports: list[CaseReport] = []
        budget_s = purse.left_s
        for name in SIDES:
            self._team, guests = self._teams[name], self.guests
            self.guests = self._all_guests[name]
            try:
                found = self._judge_all(stage, Purse(budget_s))
            finally:
                self._teams[name], self.guests = self._team, guests
            if failed_case := verdict.first_failed(found):
                return self._fail(name, failed_case)
            reports = reports or found
        return reports

    def _time_both(self, stage: str, purse: Purse) -> list[CaseReport]:
        cases = self._problem.cases(stage, self._request.mode)
        seeds = functools.partial(self._seeds, stage)
        clock = Clock(self._court, self._shapes, seeds, self._home.history())
        one, other = (
            Side(name, self._all_guests[name], self._teams[name], Purse(purse.left_s))
            for name in SIDES
        )
        duel = Duel((one, other), clock, self._warm_ups, self._tell)
        try:
            self._duel = duel.run(cases, self._problem.ranking_by, purse.left_s)
        except SideFailed as failed_side:
            return self._fail(failed_side.side, failed_side.report)
        finally:
            self._home.keep("samples.json.gz", duel.record())
        return [CaseReport(case.name, stage, "passed") for case in cases]

    def _fail(self, side: str, report: CaseReport) -> list[CaseReport]:
        """The duel ends with the verdict of the side that did not pass."""
        self._duel = DuelReport(winner="", failed=side)
        return [report]


def _is_timed(mode: str) -> bool:
    """Whether anybody will see how long a call took."""
    return any(stage in STAGES[mode] for stage in _TIMED)


def _share_cores() -> list[int]:
    """This process keeps to the first core and leaves the others, none or more, to the workers."""
    first, *others = sorted(os.sched_getaffinity(0))
    if others:
        os.sched_setaffinity(0, [first])
    return others
