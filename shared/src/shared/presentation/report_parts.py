"""The parts of a report on a submission, as lines, and the states of queues and agents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from harness.vocabulary import MODES, PASSED, SKIPPED, STAGES
from shared.api.agents import STANDINGS_AT_WORK, Agent, CurrentRun
from shared.api.cases import Case
from shared.api.queues import Job, Launcher, Pool, Queue
from shared.api.quotas import OpenSubmissions
from shared.api.submissions import FullSubmission, Progress
from shared.presentation.outcome import (
    AnyRun,
    composition_text,
    isolation_text,
    share_text,
    speedup_text,
    speedups_text,
)
from shared.presentation.units import (
    EN_DASH,
    NO_VALUE,
    about_text,
    count_text,
    escape_control_characters,
    one_line,
    seconds_text,
    spread_text,
    time_text,
)
from shared.states import STATES

TIME = "time"
MARKS = {PASSED: "✅", SKIPPED: "⏭"}
# Every verdict but those of MARKS, which names all that went well.
WORDS: Mapping[str, str] = {
    "wrong_answer": "wrong answer",
    "late_write": "wrote after it had answered",
    "protocol": "broke the protocol",
    "timed_out": "took too long",
    "out_of_memory": "out of memory",
    "output_limit": "printed too much",
    "crashed": "crashed",
    "compile_error": "does not compile",
    "import_error": "cannot be imported",
    "policy": "uses what the problem does not allow",
    "suspicious": "suspicious, held until somebody looks",
    "infra_failed": "the platform failed, not the submission",
}
NAME_MAX, MESSAGE_MAX = 18, 300
# The kinds of launchers that start agents elsewhere.
CLOUDS = ("github", "modal")
# Facts about a host that make times comparable, in the order shown.
CODE_SHOWN = 12
FACTS = ("gpu", "cuda_driver", "clock", "cpu", "cores", "python", "torch", "platform")


class Stage(NamedTuple):
    """The result of a stage, with the number of cases that passed."""

    name: str
    verdict: str
    passed: int = 0
    total: int = 0


def verdict_text(verdict: str) -> str:
    """Return a verdict in words.

    >>> verdict_text("wrong_answer"), verdict_text("compile_error")
    ('wrong answer', 'does not compile')
    """
    return WORDS.get(verdict, one_line(verdict.replace("_", " "), 60))


def mark_of(verdict: str) -> str:
    """Return the symbol shown beside a verdict.

    >>> mark_of("passed"), mark_of("crashed")
    ('✅', '❌')
    """
    return MARKS.get(verdict, "❌")


def stages(submission: FullSubmission) -> list[Stage]:
    """Return each stage's result; none if the failing stage is not shown, as for other users."""
    if submission.verdict is None:
        return []
    results: list[Stage] = []
    has_failed = False
    for name in MODES[submission.mode].stages:
        cases = [case for case in submission.cases if case.stage == name]
        verdict = SKIPPED if has_failed else _stage_verdict(submission, name, cases)
        passed = sum(case.verdict == PASSED for case in cases)
        results.append(Stage(name, verdict, passed, len(cases)))
        has_failed = has_failed or verdict != PASSED
    return results if has_failed or submission.verdict == PASSED else []


def _stage_verdict(submission: FullSubmission, name: str, cases: Sequence[Case]) -> str:
    """Return a stage's first verdict other than `passed`; without cases, the run's."""
    if submission.verdict != PASSED and submission.stage == name:
        return str(submission.verdict)
    return next((case.verdict for case in cases if case.verdict not in (PASSED, SKIPPED)), PASSED)


def stage_lines(submission: FullSubmission) -> list[str]:
    """Return a line for each stage; of the hidden run only its verdict."""
    return [
        f"{mark_of(stage.verdict)} {STAGES[stage.name].title}:"
        f" {verdict_text(stage.verdict)}"
        + (
            f" {stage.passed}/{stage.total}"
            if stage.total and not STAGES[stage.name].is_hidden
            else ""
        )
        for stage in stages(submission)
    ]


def time_lines(cases: Iterable[Case]) -> list[str]:
    """Return the timed cases as a table: time, best, worst, and the comparison with baselines."""
    timed = [case for case in cases if case.stage == TIME and case.time_us is not None]
    if not timed:
        return []
    rows = [("case", "time", "best", "worst"), *map(_time_cells, timed)]
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in (1, 2, 3))])
        for row in rows
    ]
    table = [lines[0]]
    for case, line in zip(timed, lines[1:], strict=True):
        table += [line, *_comparison_lines(case)]
    return table


def _time_cells(case: Case) -> tuple[str, str, str, str]:
    name = one_line(case.name, NAME_MAX)
    spread = spread_text(case.time_us, case.interval_us)
    process_times = case.process_us if len(case.process_us) > 1 else []
    best = _net_us(case, "best_us", min(process_times, default=None))
    worst = _net_us(case, "worst_us", max(process_times, default=None))
    return (name, spread, time_text(best), time_text(worst))


def _net_us(case: Case, name: str, process_us: float | None) -> float | None:
    """Return a statistic without the handshake, like the time; else the process value.

    >>> known = {"best_us": 5.0, "handshake_us": 3.0}
    >>> case = Case(name="c", stage="time", verdict="passed", is_hidden=False, statistics=known)
    >>> _net_us(case, "best_us", 4.0), _net_us(case, "worst_us", 4.0)
    (2.0, 4.0)
    """
    net_us = case.statistics.get(name, 0.0) - case.statistics.get("handshake_us", 0.0)
    return net_us if net_us > 0 else process_us


def _comparison_lines(case: Case) -> Iterator[str]:
    """Yield how a time compares with roofline and baselines, and whether it can be trusted."""
    texts, roofline = [], case.roofline
    if roofline and roofline.share is not None:
        texts.append(f"{share_text(roofline.share)} of {roofline.bound or 'the roofline'}")
    if case.speedup is not None:
        texts.append(speedup_text(case.speedup, case.speedup_interval))
    if case.vs_baseline:
        texts.append(speedups_text(case.vs_baseline))
    texts += [case.grade] if case.grade not in ("", "ok") else []
    if texts:
        yield f"  {one_line(', '.join(texts), MESSAGE_MAX)}"


def system_lines(submission: FullSubmission) -> list[str]:
    """Describe where it ran: GPU type, agent, isolation, host, versions."""
    target = f"{submission.problem} version {submission.problem_version} on {submission.gpu}"
    agent = f", agent {one_line(submission.agent, 40)}" if submission.agent else ""
    lines = [f"{target}{agent}"]
    lines += [isolation_text(submission)] if submission.level else []
    composition = composition_text(submission.composition)
    lines += [f"composition: {composition}"] if composition else []
    host = _host_facts(submission.environment, submission.fingerprint or "")
    return [*lines, ", ".join(host)] if host else lines


def _host_facts(environment: Mapping[str, str], fingerprint: str) -> list[str]:
    """Return what is known about the host, and the harness code that judged there.

    >>> _host_facts({"cpu": "EPYC", "harness_code": "7de7c33fe0f55c48"}, "f1")
    ['cpu EPYC', 'harness code 7de7c33fe0f5', 'fingerprint f1']
    """
    facts = [f"{name} {one_line(environment[name], 80)}" for name in FACTS if environment.get(name)]
    code = one_line(environment.get("harness_code", ""))[:CODE_SHOWN]
    identifiers = {"harness code": code, "fingerprint": one_line(fingerprint, 40)}
    return [*facts, *(f"{name} {text}" for name, text in identifiers.items() if text)]


def captured_log(run: AnyRun) -> list[str]:
    """Return the head and the tail of the output, as far as they were stored."""
    head, tail = (
        escape_control_characters(text).splitlines() for text in (run.log_head, run.log_tail)
    )
    if head and tail and head != tail:
        return ["it printed, at first:", *head, "", "and at the end:", *tail]
    return ["it printed:", *(head or tail)] if head or tail else []


@dataclass(frozen=True)
class ProgressText:
    """A sentence, the completed cases of a stage if known, and whether all is over.

    The `estimate` is shown with the sentence; a new estimate alone is not worth a message.
    """

    sentence: str
    completed: int = 0
    total: int = 0
    is_over: bool = False
    estimate: str = ""

    @property
    def whole(self) -> str:
        """The sentence with its estimate."""
        return self.sentence + self.estimate


def submission_progress(submission: FullSubmission) -> ProgressText:
    """Describe the state of a submission."""
    if submission.is_over:
        return ProgressText(submission.verdict or submission.outcome or "finished", is_over=True)
    if submission.state == "running" and submission.progress is not None:
        return run_progress(submission.progress)
    if submission.state == "assigned":
        return ProgressText(f"given to agent {submission.agent}")
    if submission.queue is not None:
        return queue_text(submission.queue)
    return ProgressText(STATES[submission.state].text)


def run_progress(progress: Progress) -> ProgressText:
    """Describe the progress of a run.

    >>> run_progress(Progress(stage="check", case="size=64", done=2, total=5, stages=[])).sentence
    'check, case 3 of 5: size=64'
    """
    case_text = f"case {min(progress.done + 1, progress.total)} of {progress.total}"
    name = f": {one_line(progress.case, 60)}" if progress.case else ""
    sentence = (
        f"{progress.stage}, {case_text}{name}" if progress.total else f"{progress.stage}{name}"
    )
    return ProgressText(sentence, progress.done, progress.total)


def open_submissions_text(open_submissions: OpenSubmissions) -> str:
    """Describe how many submissions of a participant are not over, and how many may be.

    >>> open_submissions_text(OpenSubmissions(used=3, limit=100))
    'open submissions: 3 of at most 100'
    """
    return f"open submissions: {open_submissions.used} of at most {open_submissions.limit}"


def queue_text(queue: Queue) -> ProgressText:
    """Describe what a submission waits for."""
    if queue.state == "no_agent":
        reason = one_line(queue.why or queue.reason or "no agent is alive")
        return ProgressText(f"waiting: {reason}")
    position = "queued" if queue.position is None else f"queued: place {queue.position}"
    if queue.why:
        return ProgressText(f"{position}, {one_line(queue.why)}")
    online = f"{count_text(queue.agents_online, 'agent')} online, {queue.agents_busy} busy"
    return ProgressText(f"{position}, {online}", estimate=_start_estimate(queue))


def _start_estimate(queue: Queue) -> str:
    """Return the expected start, at the median and at the 90th percentile."""
    if queue.eta_s is None:
        return ""
    median, late = about_text(queue.eta_s), about_text(queue.eta_p90_s)
    is_later = late not in (NO_VALUE, "at once", median)
    late_text = f" (in 90 % of cases within {late})" if is_later else ""
    return f"; begins {'in about ' if median != 'at once' else ''}{median}{late_text}"


def busy_pools(pools: Sequence[Pool]) -> list[Pool]:
    """Return the pools with agents, launchers or waiting submissions, or that are paused."""
    return [
        pool
        for pool in pools
        if pool.agents_online or pool.launchers or pool.waiting or pool.paused is not None
    ]


class QueuePlaces(NamedTuple):
    """A job and its place in a queue; or some baselines in a row and their first and last place."""

    first: int
    last: int
    job: Job

    @property
    def text(self) -> str:
        """Return the places."""
        return str(self.first) if self.first == self.last else f"{self.first}{EN_DASH}{self.last}"

    @property
    def baselines_text(self) -> str:
        """Return how many baselines these are; "" for another job."""
        if not self.job.is_baseline:
            return ""
        return f"{count_text(self.last - self.first + 1, 'baseline')} of the platform"


def group_jobs(jobs: Sequence[Job]) -> list[QueuePlaces]:
    """Return the places of a queue, with baselines in a row as one line."""
    lines: list[QueuePlaces] = []
    for job in jobs:
        if job.is_baseline and lines and lines[-1].job.is_baseline:
            lines[-1] = lines[-1]._replace(last=job.position)
        else:
            lines.append(QueuePlaces(job.position, job.position, job))
    return lines


def list_launchers(pools: Sequence[Pool]) -> list[tuple[Launcher, list[str]]]:
    """Return each launcher of some pools once, with the GPU types that it serves."""
    gpus: dict[str, list[str]] = {}
    launchers: dict[str, Launcher] = {}
    for pool in pools:
        for launcher in pool.launchers:
            gpus.setdefault(launcher.name, []).append(pool.gpu)
            launchers[launcher.name] = launcher
    return [(launcher, gpus[name]) for name, launcher in launchers.items()]


def launcher_label(launcher: Launcher) -> str:
    """Return a launcher's name, and whether it only stands in for the cloud of that name.

    >>> launcher_label(
    ...     Launcher(
    ...         name="modal", kind="local", running=0, running_max=1, cost_today=0, daily_cost_max=1
    ...     )
    ... )
    'modal (a stand-in on one machine)'
    """
    is_stand_in = launcher.name in CLOUDS and launcher.kind != launcher.name
    return f"{launcher.name} (a stand-in on one machine)" if is_stand_in else launcher.name


def launcher_usage(launcher: Launcher) -> tuple[str, str]:
    """Return how many agents a launcher runs and what they cost today, with the limits.

    >>> launcher_usage(
    ...     Launcher(
    ...         name="modal", kind="modal", running=1, running_max=2, cost_today=3, daily_cost_max=9
    ...     )
    ... )
    ('1 of 2', '3.00 of 9.00')
    """
    agents = f"{launcher.running} of {launcher.running_max}"
    return agents, f"{launcher.cost_today:.2f} of {launcher.daily_cost_max:.2f}"


def agent_state_text(agent: Agent) -> str:
    """Describe whether an agent is free, and what holds it back."""
    held = held_back_text(agent)
    if not agent.is_alive:
        return f"silent, {held}" if held else "silent"
    unknown = ", not enrolled" if agent.standing == "not_enrolled" else ""
    return held or ("free" if agent.is_free else "busy") + unknown


def current_runs_text(agent: Agent, at: datetime) -> str:
    """Describe what an agent runs and for how long; empty if it runs nothing."""
    return ", ".join(_current_run_text(run, at) for run in agent.current_runs)


def _current_run_text(run: CurrentRun, at: datetime) -> str:
    number = "" if run.number is None else f"#{run.number}"
    kind = "" if number and run.kind == "submission" else run.kind
    elapsed_s = max(0.0, (at - run.assigned_at).total_seconds())
    return f"{' '.join(filter(None, (kind, number)))} for {seconds_text(elapsed_s)}"


def held_back_text(agent: Agent) -> str:
    """Return why an agent takes no work; empty if it may."""
    if agent.standing not in STANDINGS_AT_WORK:
        return f"{agent.standing}: {one_line(agent.standing_reason or NO_VALUE)}"
    return f"in quarantine: {one_line(agent.quarantine)}" if agent.quarantine else ""
