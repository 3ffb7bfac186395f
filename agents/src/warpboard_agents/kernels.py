"""What all adapters share: a problem as a model sees it, and the evaluation of its kernels."""

import asyncio
import atexit
import functools
import os
import shutil
import tempfile
import weakref
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from harness.evaluations import Evaluation
from harness.evaluator import EvaluationMode, Evaluator
from harness.vocabulary import CPU_TYPE, EVALUATION_LEVEL_MIN
from shared.api.evaluations import EvaluationItem, EvaluationRequest, EvaluationResult
from shared.api.problems import FullProblem
from shared.checks.problem_files import ProblemFiles
from shared.clock import new_id
from shared.evaluations import ITEMS_MAX
from shared.problem_versions import load_problem, write_version
from shared.problems.templates import render_template, starter_templates
from warpboard.api import Caller, open_api
from warpboard.service.evaluations import evaluate_judged

T = TypeVar("T")
STATEMENT, REFERENCE = "statement.md", "reference.py"


def write_statement(files: ProblemFiles) -> str:
    """Return what a model is told of a problem: its statement, and the file to start from."""
    manifest, version = files.parse_manifest(), files.version_files
    page = version.get(STATEMENT, b"").decode()
    reference = "" if page else version.get(REFERENCE, b"").decode()
    starter = starter_templates(manifest)[0]
    template = render_template(manifest, starter, version)
    text = page or manifest["description"] or manifest["title"]
    return _join_statement(text, reference, starter.language, template)


def _join_statement(text: str, reference: str, language: str, template: str) -> str:
    texts = [text]
    if reference:
        texts.append(f"The reference:\n\n```python\n{reference.strip()}\n```")
    texts.append(f"Start from this file:\n\n```{language}\n{template.strip()}\n```")
    return "\n\n".join(text.strip() for text in texts) + "\n"


class KernelEvaluator(Protocol):
    """Evaluates kernels for one problem, from any thread and any event loop.

    `slug` names the problem, and `statement` is what a model is told of it.
    """

    slug: str
    statement: str

    async def evaluate(self, source: str, mode: EvaluationMode = "benchmark") -> Evaluation:
        """Evaluate a kernel."""

    def evaluate_all(
        self, sources: Sequence[str], mode: EvaluationMode = "benchmark"
    ) -> list[Evaluation]:
        """Evaluate kernels at once and return the results in their order."""


class Platform(NamedTuple):
    """A platform that evaluates; `gpu` is needed for a problem with several GPU types."""

    url: str
    token: str = ""
    gpu: str = ""


def open_evaluator(
    problem: str,
    *,
    level_min: str = EVALUATION_LEVEL_MIN,
    platform: Platform | None = None,
) -> KernelEvaluator:
    """Return an evaluator of this machine, or of a platform.

    `problem` is the path of a problem of any form, or the slug of one of the platform's problems.
    The platform's token has the scopes `submit` and `read:own`.
    """
    if platform is not None:
        return PlatformEvaluator(problem, platform)
    return LocalEvaluator(problem, level_min=level_min)


class LocalEvaluator:
    """Evaluates kernels on this machine.

    All evaluators of a process share its supervisors, which the first one starts. `problem` is the
    path of a problem of any form. A machine that isolates less than `level_min` evaluates nothing.
    """

    def __init__(self, problem: str, *, level_min: str = EVALUATION_LEVEL_MIN) -> None:
        files = load_problem(Path(problem), None, (CPU_TYPE,))
        self.slug, self.statement = files.slug, write_statement(files)
        # Compiled once, not with every kernel.
        self._folder = tempfile.mkdtemp(prefix="warpboard-problem-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        write_version(files, Path(self._folder))
        # A fork needs an evaluator of its own.
        self._evaluator = _start_evaluator(os.getpid(), level_min)

    async def evaluate(self, source: str, mode: EvaluationMode = "benchmark") -> Evaluation:
        """Evaluate a kernel."""
        return await anext(self._evaluator.map(self._folder, [source], mode))

    def evaluate_all(
        self, sources: Sequence[str], mode: EvaluationMode = "benchmark"
    ) -> list[Evaluation]:
        """Evaluate kernels at once and return the results in their order."""
        results = {result.id: result for result in self._evaluator.map(self._folder, sources, mode)}
        return [results[number] for number in range(len(sources))]


class PlatformEvaluator:
    """Evaluates kernels on a platform, which requires the level of isolation itself."""

    def __init__(self, problem: str, platform: Platform) -> None:
        self.slug, self._url, self._gpu = problem, platform.url, platform.gpu or None
        self._caller = Caller(token=platform.token or None)
        self.statement = _run_aside(self._fetch_statement())

    async def evaluate(self, source: str, mode: EvaluationMode = "benchmark") -> Evaluation:
        """Evaluate a kernel. Raises Refused, Failed and Unavailable."""
        return (await self._evaluate([source], mode))[0]

    def evaluate_all(
        self, sources: Sequence[str], mode: EvaluationMode = "benchmark"
    ) -> list[Evaluation]:
        """Evaluate kernels at once, in their order. Raises Refused, Failed and Unavailable."""
        return _run_aside(self._evaluate(sources, mode))

    async def _evaluate(self, sources: Sequence[str], mode: EvaluationMode) -> list[Evaluation]:
        items = [EvaluationItem(id=str(n), source=source) for n, source in enumerate(sources)]
        results: dict[str, Evaluation] = {}
        async with open_api(self._url, self._caller) as api:
            for first in range(0, len(items), ITEMS_MAX):
                batch = items[first : first + ITEMS_MAX]
                request = EvaluationRequest(
                    problem=self.slug, gpu=self._gpu, mode=mode, items=batch
                )
                async for result in evaluate_judged(api, request, new_id()):
                    results[result.id] = _read_result(result, mode)
        return [results[item.id] for item in items]

    async def _fetch_statement(self) -> str:
        async with open_api(self._url, self._caller) as api:
            problem = (await api.get(FullProblem, "problems", self.slug)).value
            has_reference = REFERENCE in [file.name for file in problem.files]
            reference = (
                await api.file("problems", self.slug, "files", REFERENCE)
                if has_reference and not problem.statement
                else b""
            )
            language = problem.starts[0].language
            template = await api.file("problems", self.slug, "templates", language)
        text = problem.statement or problem.description or problem.title
        return _join_statement(text, reference.decode(), language, template.decode())


def _read_result(result: EvaluationResult, mode: EvaluationMode) -> Evaluation:
    names = {field.name for field in fields(Evaluation)} & set(result.__struct_fields__)
    values = {name: getattr(result, name) for name in names}
    known = {"mode": mode, "verdict": result.verdict or ""}
    return msgspec.convert(values | known, Evaluation, from_attributes=True)


def _run_aside(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whether or not the caller has an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


@functools.cache
def _start_evaluator(_pid: int, level_min: str) -> Evaluator:
    evaluator = Evaluator(level_min=level_min)
    evaluator.start()
    atexit.register(evaluator.close)
    return evaluator
