"""Checking problems here: their own code is looked at, and each of their solutions is run."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shared.clock import now
from shared.errors import Refused
from shared.problems.report import CheckReport, Finding, read_report
from warpboard.domain import checks, trials
from warpboard.domain.answers import Progress, Run, read
from warpboard.domain.checks import Checked
from warpboard.domain.demo import HERE, Sample, Solutions, code_of, needed_gpus
from warpboard.domain.outcome import FAILED, OK
from warpboard.domain.progress import News
from warpboard.domain.trials import Trial
from warpboard.service.compiling import Asked, digest_of, folders_of, manifest_of
from warpboard.service.ports import (
    Disk,
    Harness,
    Live,
    ProblemFiles,
    Reports,
    Screen,
    Terms,
    Wish,
)

# Every case, checked; what is timed is no matter of right and wrong.
MODE = "verify"
# With another way to check, what an earlier one has found counts for nothing.
EDITION = 3
_NATIVE_START = ".cu"
_MODELS = "kernelbench"
_AS_ANSWER = b"\n\nModelNew = Model\n"


@dataclass(frozen=True)
class Tools:
    """What a check needs: files, a harness, a screen, and where reports are kept."""

    disk: Disk
    harness: Harness
    screen: Screen
    reports: Reports


async def check(tools: Tools, asked: Asked) -> int:
    """Compile each problem, look at its code and run its solutions; 1 if anything is wrong.

    Errors: Refused for a contest file that cannot be read; Failed.
    """
    screen = tools.screen
    folders = [one for path in asked.folders for one in folders_of(tools.disk, path)]
    found: list[Checked] = []
    async with tools.harness.warm() as warm:
        here = replace(tools, harness=warm)
        for folder in folders:
            one = await _whole(here, folder, asked)
            found.append(_strict(one) if asked.is_strict else one)
            if not asked.as_json:
                _say(screen, found[-1])
    if asked.as_json:
        screen.json(checks.document(found))
    else:
        _tell(screen, found)
    return OK if all(one.is_good for one in found) else FAILED


async def examined(tools: Tools, folder: Path, problem: ProblemFiles) -> Checked:
    """What is found in a problem that compiles; its report is kept. Errors: Failed."""
    began = time.monotonic()
    solutions = _solutions(tools.disk, folder, problem)
    with tools.screen.live([problem.slug]) as live:
        examination = _Examination(tools.harness, live, problem)
        findings, ended = await examination.run(solutions)
    code = tools.harness.code()
    about = {"digest": digest_of(problem), "harness": _harness(code)}
    made = checks.report(about, findings, ended, now(), examination.memory_mib)
    if all(one.code != "machine" for one in findings):
        tools.reports.keep(_key(problem, solutions, code), made.model_dump_json())
    found = _checked(folder, problem, made)
    return replace(found, trials=tuple(ended), took_s=time.monotonic() - began)


def known(tools: Tools, folder: Path, problem: ProblemFiles) -> Checked | None:
    """What an earlier check found in the same version, by the same harness and solutions.

    Where it found an error there is another look: a busy machine may be the reason.
    """
    solutions = _solutions(tools.disk, folder, problem)
    text = tools.reports.found(_key(problem, solutions, tools.harness.code()))
    if text is None:
        return None
    try:
        made = read_report(text)
    except Refused:
        return None
    is_it = made.is_clean and made.digest == digest_of(problem)
    return _checked(folder, problem, made) if is_it else None


async def _whole(tools: Tools, folder: Path, asked: Asked) -> Checked:
    try:
        problem = tools.disk.problem(folder, None, asked.gpus)
    except Refused as refused:
        return Checked(folder.name, str(folder), (checks.of_refusal(refused),))
    return await examined(tools, folder, problem)


def _checked(folder: Path, problem: ProblemFiles, made: CheckReport) -> Checked:
    return Checked(
        problem.slug,
        str(folder),
        tuple(made.findings),
        made,
        files=len(problem.version_files),
        ranking_by=problem.ranking_by,
    )


def _strict(one: Checked) -> Checked:
    return replace(one, findings=checks.stricter(one.findings))


def _say(screen: Screen, one: Checked) -> None:
    screen.say(one.sentence)
    for line in one.lines:
        screen.say(f"  {line}")


def _tell(screen: Screen, found: list[Checked]) -> None:
    """One problem file by file; of several the sums, and what ended as it must not."""
    ended = [trial for one in found for trial in one.trials]
    if len(found) > 1:
        screen.table(checks.summary(found))
        ended = [trial for trial in ended if trial.is_shown and not trial.is_expected]
    if ended:
        screen.table(trials.table(ended))


def _solutions(disk: Disk, folder: Path, problem: ProblemFiles) -> Solutions:
    """Those that lie there; a model that is its own reference solves it, too."""
    found = disk.samples(folder, problem.slug)
    if found.correct or manifest_of(problem).get("form") != _MODELS:
        return found
    text = problem.version_files["reference.py"] + _AS_ANSWER
    return replace(found, correct=(Sample("reference.py", text),))


def _harness(code: Mapping[str, Any]) -> str:
    return f"{code['version']} {code['digest'][:16]}"


def _key(problem: ProblemFiles, solutions: Solutions, code: Mapping[str, Any]) -> str:
    """What a report depends on, in short."""
    pairs = [*(("correct", one) for one in solutions.correct)]
    pairs += [("wrong", one) for one in solutions.wrong]
    files = [[kind, one.name, hashlib.sha256(one.source).hexdigest()] for kind, one in pairs]
    said = json.dumps([EDITION, digest_of(problem), code["digest"], files])
    return hashlib.sha256(said.encode()).hexdigest()


class _Examination:
    """One problem, whose parts are run one after the other."""

    def __init__(self, harness: Harness, live: Live, problem: ProblemFiles) -> None:
        self._harness = harness
        self._live = live
        self._problem = problem
        self._manifest = manifest_of(problem)
        self.memory_mib = 0

    async def run(self, solutions: Solutions) -> tuple[list[Finding], list[Trial]]:
        """What is wrong, and how the solutions ended. Errors: Failed."""
        warnings = self._problem.warnings
        found = [checks.finding("schema_warning", "warning", "its files", x) for x in warnings]
        self._show("its own code", 0, 1)
        answer = await self._harness.inspect(self._problem)
        inspected, gpus = checks.of_inspection(answer), self._manifest["gpus"]
        self.memory_mib = checks.memory_mib(answer, gpus)
        found += checks.softened(inspected, gpus)
        if checks.is_broken(inspected):
            # Each of them would end, or hang, as the problem's own code does.
            return found, []
        ended = await self._trials(solutions)
        ended += [await self._baseline(one, solutions, ended) for one in self._baselines()]
        found += checks.of_trials(ended)
        for name in sorted(set(self._manifest["templates"].values())):
            found += await self._template(name)
        return found, ended

    async def _trials(self, solutions: Solutions) -> list[Trial]:
        wanted = [(one, True) for one in solutions.correct]
        wanted += [(one, False) for one in solutions.wrong]
        ended = []
        for done, (sample, must_pass) in enumerate(wanted):
            self._show(sample.name, done, len(wanted))
            ended.append(await self._trial(sample, must_pass=must_pass))
        return ended

    async def _trial(self, sample: Sample, *, must_pass: bool) -> Trial:
        slug = self._problem.slug
        if gpus := needed_gpus(sample):
            reason = f"needs a GPU: {', '.join(gpus)}"
            return Trial(slug, sample.name, must_pass, "", reason, is_shown=False)
        run, failure = await self._ran(sample, MODE)
        verdict, reason = run.verdict or "", run.reason or ""
        trial = Trial(slug, sample.name, must_pass, verdict, reason, failure=failure)
        gpus = self._manifest["gpus"]
        return trial if HERE in gpus else trials.of_a_gpu(trial, gpus)

    def _baselines(self) -> list[Sample]:
        """What the platform is going to run itself, by the paths that the problem gives them."""
        named = [one["file"] for one in self._manifest.get("baselines", ())]
        return [Sample(name, self._problem.files[name]) for name in dict.fromkeys(named)]

    async def _baseline(self, one: Sample, solutions: Solutions, ended: list[Trial]) -> Trial:
        """How it ended; a file that is a correct solution, too, ended as that did."""
        for sample, trial in zip(solutions.correct, ended, strict=False):
            if code_of(sample) == code_of(one) and needed_gpus(sample) == needed_gpus(one):
                return replace(trial, file=one.name, is_baseline=True)
        self._show(one.name, 0, 1)
        return replace(await self._trial(one, must_pass=True), is_baseline=True)

    async def _template(self, name: str) -> Sequence[Finding]:
        """A start in CUDA is no matter of a machine that has no GPU."""
        if name.endswith(_NATIVE_START) and self._manifest.get("lang", "py") == "py":
            return []
        sample = Sample(name, self._problem.version_files[name])
        if needed_gpus(sample):
            return []
        self._show(name, 0, 1)
        run, _ = await self._ran(sample, "test")
        found = checks.of_template(name, run.verdict or "", run.reason or "")
        return checks.softened(found, self._manifest["gpus"])

    async def _ran(self, sample: Sample, mode: str) -> tuple[Run, str]:
        """How it ended, and the harness's code for what failed, if there is no verdict."""
        wish = Wish(sample.name, sample.source, self._problem.slug, mode)
        answer = await self._harness.run(self._problem, wish, _unheard, Terms())
        return read(answer, Run), answer.get("failure_code", "")

    def _show(self, what: str, done: int, total: int) -> None:
        news = News("checking", done, total, estimate=f": {what}")
        self._live.show(self._problem.slug, news)


async def _unheard(_: Progress) -> None:
    """The cases of one solution are over too soon to be told."""
