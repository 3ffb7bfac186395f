"""A run from its request to its report: build, check, time."""

import hashlib
import itertools
import json
import resource
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from harness.devices.cpu import Cpu
from harness.devices.device import Device
from harness.messages import (
    LEVEL,
    STAGES,
    VERSION,
    CaseReport,
    Progress,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
    failed,
)
from harness.problem import Case, Problem, ProblemFault, load
from harness.supervisor import sandbox, verdict
from harness.supervisor.author import Author
from harness.supervisor.calls import Court, Gate
from harness.supervisor.estimate import SAMPLES_MAX, SAMPLES_MIN, estimate
from harness.supervisor.inputs import KEY_BYTES, Shape, probe, seed_of
from harness.supervisor.output import Log
from harness.supervisor.sandbox import SandboxFault, Worker
from harness.supervisor.verdict import CaseFailed
from harness.worker import protocol

Tell = Callable[[Started | Progress | StageFinished], None]

_CASE_S_MAX = 2.0

# A stage that is to fit its budget plans with half of it: a machine can be slower than it was.
_SHARE = 0.5
_CALLS_PER_CHECK = 2
_WARM_UPS_MIN = 2
_WARM_UPS_MAX = 5
_LAST_CHANCE_S = 1.0


def execute(request: RunRequest, scratch: Path, tell: Tell) -> RunReport:
    """One run; the worker lives in `scratch`, and nothing of it is left when this returns."""
    began = time.monotonic()
    if request.device != "cpu":
        return failed("sandbox", f"there is no device {request.device!r} here, only 'cpu'")
    try:
        report = _Run(request, load(Path(request.problem)), tell).execute(scratch)
    except ProblemFault as fault:
        report = failed("problem_fault", verdict.printable(str(fault)))
    except SandboxFault as fault:
        report = failed("sandbox", str(fault))
    return replace(report, took_s=time.monotonic() - began, usage=_usage(began))


class _Run:
    """What one run knows: its request and its key, and the cases it has judged so far."""

    def __init__(self, request: RunRequest, problem: Problem, tell: Tell) -> None:
        self._request = request
        self._problem = problem
        self._tell = tell
        self._key = bytes.fromhex(request.key) if request.key else secrets.token_bytes(KEY_BYTES)
        self._device: Device = Cpu()
        self._shapes: dict[str, Shape] = {}
        self._samples: dict[str, list[float]] = {}
        self._cases: list[CaseReport] = []
        self._stage = ""
        self._first_failed: CaseReport | None = None

    def execute(self, scratch: Path) -> RunReport:
        """The stages in order, until one does not pass. Errors: ProblemFault, SandboxFault."""
        # The worker goes first, so that its imports run beside the supervisor's.
        worker = sandbox.start(self._guest(scratch))
        try:
            self._tell(self._started())
            self._run_stages(worker)
        finally:
            is_empty = worker.end()
            self._keep_records(worker.log)
        if not is_empty:
            raise SandboxFault("a process of the submission could not be killed")
        return self._report(worker.log)

    def _started(self) -> Started:
        return Started(
            harness=VERSION,
            level=LEVEL,
            tier=self._device.tier,
            key_commit=hashlib.sha256(self._key).hexdigest(),
            environment=self._device.describe(),
        )

    def _guest(self, scratch: Path) -> sandbox.Guest:
        mode = self._request.mode
        cpu_s = sum(self._problem.budget_s(stage, mode) for stage in STAGES[mode])
        return sandbox.Guest(Path(self._request.source), self._problem, scratch, cpu_s)

    def _run_stages(self, worker: Worker) -> None:
        for stage in STAGES[self._request.mode]:
            began = time.monotonic()
            self._stage = stage
            deadline = began + self._problem.budget_s(stage, self._request.mode)
            if stage == "build":
                cases = self._build(worker, deadline)
            else:
                cases = self._judge_all(stage, deadline)
                self._cases += cases
            self._first_failed = verdict.first_failed(cases)
            ended = self._first_failed.verdict if self._first_failed else "passed"
            self._tell(StageFinished(stage, ended, time.monotonic() - began, len(cases)))
            if self._first_failed:
                return

    def _build(self, worker: Worker, deadline: float) -> list[CaseReport]:
        """While the worker loads the submission, the shapes of all cases are found out."""
        self._device.prepare()
        author = Author(self._problem)
        self._court = Court(worker, author, self._device)
        for stage in STAGES[self._request.mode]:
            for case in self._problem.cases(stage, self._request.mode):
                if case.name not in self._shapes:
                    self._shapes[case.name] = probe(author, case, self._key)
        # A worker that was ready in time is not late because the supervisor was slow.
        until = max(deadline, time.monotonic() + _LAST_CHANCE_S)
        try:
            said = worker.receive(until, "the import used up its budget")
        except CaseFailed as failure:
            return [CaseReport("", "build", failure.verdict, failure.message)]
        if said != protocol.READY:
            return [CaseReport("", "build", "protocol", "the worker did not say that it is ready")]
        return []

    def _judge_all(self, stage: str, deadline: float) -> list[CaseReport]:
        """Every case of a stage; those after the worker's end are skipped."""
        cases = self._problem.cases(stage, self._request.mode)
        reports: list[CaseReport] = []
        is_over = False
        for done, case in enumerate(cases):
            report = CaseReport(case.name, stage, "skipped")
            if not is_over:
                self._tell(Progress(stage, case.name, done, len(cases)))
                left_s = deadline - time.monotonic()
                share_s = min(_CASE_S_MAX, _SHARE * left_s / (len(cases) - done))
                report, is_over = self._judge(stage, case, deadline, share_s)
            reports.append(verdict.hidden(report) if stage == "hidden_check" else report)
        return reports

    def _judge(
        self, stage: str, case: Case, deadline: float, share_s: float
    ) -> tuple[CaseReport, bool]:
        """One case, and whether the worker is of no more use."""
        seeds = self._seeds(stage, case)
        try:
            with Gate(self._court, case, self._shapes[case.name]) as gate:

                def call() -> float:
                    return gate.call(next(seeds), deadline)

                if stage == "time":
                    return self._time(case, call, share_s), False
                for _ in range(_CALLS_PER_CHECK):
                    call()
        except CaseFailed as failure:
            return CaseReport(case.name, stage, failure.verdict, failure.message), failure.is_last
        return CaseReport(case.name, stage, "passed"), False

    def _time(self, case: Case, call: Callable[[], float], share_s: float) -> CaseReport:
        """Warm-ups of a number that nobody is told, then samples; all calls are alike."""
        until = time.monotonic() + share_s
        for _ in range(_WARM_UPS_MIN + secrets.randbelow(_WARM_UPS_MAX - _WARM_UPS_MIN + 1)):
            call()
        samples = self._samples[case.name] = []
        while len(samples) < SAMPLES_MAX:
            if len(samples) >= SAMPLES_MIN and time.monotonic() >= until:
                break
            samples.append(call())
        found = estimate(samples)
        return CaseReport(
            name=case.name,
            stage="time",
            verdict="passed",
            time_us=found.time_us,
            interval_us=(found.low_us, found.high_us),
            samples=len(samples),
        )

    def _seeds(self, stage: str, case: Case) -> Iterator[int]:
        """A seed for each call; a checked case begins with the published one, to be repeated."""
        bits = self._shapes[case.name].seed_bits
        for call in itertools.count():
            if stage == "check" and call == 0 and case.seed is not None:
                yield case.seed
            else:
                yield seed_of(self._key, stage, case.name, call, bits)

    def _keep_records(self, log: Log) -> None:
        out = Path(self._request.out)
        (out / "log.txt").write_text(log.whole())
        record = {"unit": "us", "samples": self._samples}
        (out / "samples.json").write_text(json.dumps(record))

    def _report(self, log: Log) -> RunReport:
        head, tail = log.ends()
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
            log_bytes=log.bytes,
        )


def _usage(began: float) -> dict[str, float]:
    """Of the worker and all it started, once they are gone; the peak is of the largest one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": time.monotonic() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_memory_mib": used.ru_maxrss / 1024,
    }
