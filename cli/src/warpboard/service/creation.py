"""Create a problem: let an agent check its files, then publish what was checked."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from shared.api.agents import Agents
from shared.api.fields import JsonObject
from shared.api.problems import ProblemCheck, PublishedVersion
from shared.checks.problem_files import ProblemFiles, add_statement, compile_files
from shared.clock import now
from shared.errors import Failed, Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import count_text, seconds_text, untested_text
from shared.problem_versions import load_problem
from shared.problems.competition import parse_deadline
from shared.problems.single_file import SUFFIXES
from warpboard.api import Api, Response
from warpboard.context import AppContext
from warpboard.domain.checks import finding_lines, refusal_finding
from warpboard.domain.output import FAILED, INFRASTRUCTURE, OK
from warpboard.files import load_solutions
from warpboard.service.answers import SILENCE_S_MAX, retry_until_available
from warpboard.service.publication import check_ahead, deadline_text, published_line

POLL_S = 1.0
REPEAT_S_MAX = 30.0

# Chooses GPU types among those with agents.
ChooseGpus = Callable[[Sequence[str]], Awaitable[tuple[str, ...]]]
Confirm = Callable[[str], Awaitable[bool]]


@dataclass(frozen=True)
class CreationOptions:
    """How to publish a problem: `fields` are those of the request that publishes it.

    Without `gpus`, they are those that the files name, else those with agents. `statement` is
    Markdown.
    """

    gpus: tuple[str, ...] = ()
    statement: str = ""
    fields: Mapping[str, str | bool] = field(default_factory=dict)
    timeout_s: float = 0.0

    @property
    def deadline(self) -> str:
        """The deadline that was given, "" without one."""
        return str(self.fields.get("deadline", ""))


@dataclass(frozen=True)
class Creation:
    """Creates a problem from the file or directory at a path."""

    context: AppContext
    api: Api
    path: Path
    choose_gpus: ChooseGpus
    confirm: Confirm

    async def run(self, slug: str, options: CreationOptions) -> int:
        """Check and publish a problem; return the exit code. Raises Refused and Failed."""
        check_ahead("", parse_deadline(options.deadline), is_forced=bool(options.fields["force"]))
        if self.path.is_file() and self.path.suffix not in SUFFIXES:
            expected = f"one reference ({', '.join(SUFFIXES)}), or a directory with a task.yml"
            raise Refused("usage", f"FILE: {self.path} is neither: send {expected}", "FILE")
        try:
            problem = await self._compile(slug, options)
        except Refused as refused:
            if "\n" not in refused.reason:
                raise
            # The lines to write keep their breaks.
            for line in finding_lines(str(self.path), [refusal_finding(refused)]):
                self.context.screen.note(line)
            reason = f"{self.path} is not a problem yet: nothing was checked"
            raise Refused(refused.code, reason, refused.field) from refused
        check = await self._check(problem, options.timeout_s)
        self._show_findings(check.value)
        if check.value.state != "clean":
            self._show({"check": check.document, "published": None}, [check.value.text])
            return FAILED if check.value.state == "refused" else INFRASTRUCTURE
        for line in _summary_lines(problem, check.value, options):
            self.context.screen.note(line)
        if not await self.confirm(f"publish {slug}?"):
            document = {"check": check.document, "published": None}
            hint = "the same command with --yes publishes it without another check"
            self.context.screen.note(f"nothing was published; {hint}")
            self._show(document, [])
            return FAILED
        published = await self._publish(check.value, options)
        self._show(
            {"check": check.document, "published": published.document},
            [*published.value.warnings, published_line(published.value)],
            f"see it: {self.context.command(f'problem show {slug}')}",
        )
        return OK

    async def _compile(self, slug: str, options: CreationOptions) -> ProblemFiles:
        """Return the problem with the GPU types of its leaderboards, and its solutions."""
        gpus = options.gpus
        try:
            problem = self._load(slug, (), options.statement)
        except Refused as refused:
            if refused.field != "gpus":
                raise
            served = (await self.api.get(Agents, "agents")).value.gpus_with_agents()
            gpus = gpus or await self.choose_gpus(served)
            if not gpus:
                reason = "no GPU type has an agent now: name those of the leaderboards by --gpu"
                raise Refused("usage", reason, "--gpu") from refused
            problem = self._load(slug, gpus, options.statement)
        files = load_solutions(self.path, slug).files if self.path.is_dir() else {}
        return replace(problem, files={**files, **problem.files}, gpus=gpus or problem.gpus)

    def _load(self, slug: str, gpus: tuple[str, ...], statement: str) -> ProblemFiles:
        problem = load_problem(self.path, slug, gpus)
        if not statement:
            return problem
        return compile_files(slug, add_statement(problem.files, statement), gpus)

    async def _check(self, problem: ProblemFiles, within_s: float) -> Response[ProblemCheck]:
        """Return the check once it is over; an interrupt prints how to continue.

        Raises Refused and Failed.
        """
        hint = "the same command shows its result, and publishes it without another check"
        try:
            async with asyncio.timeout(within_s):
                return await self._follow(problem)
        except asyncio.CancelledError:
            self.context.screen.note(f"the check of {problem.slug} keeps running: {hint}")
            raise
        except TimeoutError as late:
            reason = f"the check of {problem.slug} is not over after {seconds_text(within_s)}"
            raise Failed(f"{reason}, and keeps running: {hint}") from late

    async def _follow(self, problem: ProblemFiles) -> Response[ProblemCheck]:
        """Ask for a check, and show how far it is until it is over."""
        with self.context.screen.live([problem.slug]) as show:
            show_trouble = partial(show, problem.slug)
            answer = await retry_until_available(
                lambda: self.api.request_check(problem.slug, problem.files, problem.gpus),
                REPEAT_S_MAX,
                show_trouble,
            )
            for warning in answer.value.warnings:
                self.context.screen.note(f"{problem.slug}: {warning}")
            id_ = answer.value.id
            while not answer.value.is_over:
                show(problem.slug, _progress(answer.value))
                await asyncio.sleep(POLL_S)
                answer = await retry_until_available(
                    lambda: self.api.get(ProblemCheck, "checks", id_), SILENCE_S_MAX, show_trouble
                )
        return answer

    async def _publish(
        self, check: ProblemCheck, options: CreationOptions
    ) -> Response[PublishedVersion]:
        path = ("checks", check.id, "publish")
        show = self.context.screen.show_lines()
        return await retry_until_available(
            lambda: self.api.act(PublishedVersion, "POST", *path, body=options.fields),
            REPEAT_S_MAX,
            partial(show, check.slug),
        )

    def _show_findings(self, check: ProblemCheck) -> None:
        for line in finding_lines(str(self.path), check.findings):
            self.context.screen.note(line)

    def _show(self, document: JsonObject, lines: Sequence[str], note: str = "") -> None:
        self.context.show(document, lines, note)


def _progress(check: ProblemCheck) -> ProgressText:
    """Describe how far a check is."""
    if check.state == "queued":
        return ProgressText(check.text)
    sentence, step = f"checking on {check.gpu}", check.progress
    if step is None:
        return ProgressText(sentence)
    return ProgressText(sentence, step.done, step.total, estimate=f": {step.text}")


def _summary_lines(
    problem: ProblemFiles, check: ProblemCheck, options: CreationOptions
) -> list[str]:
    """Describe what would be published."""
    manifest = problem.parse_manifest()
    cases = ", ".join(
        count_text(len(manifest[kind]), kind.removesuffix("s")) for kind in ("tests", "benchmarks")
    )
    until = deadline_text(parse_deadline(options.deadline), now())
    untested = [gpu for gpu in check.gpus if gpu not in check.tested_gpus]
    return [
        check.text,
        f"  on {', '.join(check.gpus)}, {until}; {cases}; ranked by {problem.ranking_by}",
        *([f"  {untested_text(untested)}"] if untested else []),
    ]
