"""What all adapters share: a problem as a model sees it, and the evaluation of its kernels."""

import asyncio
import atexit
import functools
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from harness.evaluations import Evaluation, compute_reward
from harness.evaluator import EvaluationMode, Evaluator
from harness.vocabulary import CPU_TYPE
from shared.checks.problem_files import ProblemFiles
from shared.problem_versions import load_problem, write_version
from shared.problems.templates import render_template, starter_templates

STATEMENT, REFERENCE = "statement.md", "reference.py"
_starting = threading.Lock()


def write_statement(files: ProblemFiles) -> str:
    """Return what a model is told of a problem: its statement, and the file to start from."""
    manifest, version = files.parse_manifest(), files.version_files
    page = version.get(STATEMENT, b"").decode()
    texts = [page or manifest["description"] or manifest["title"]]
    if not page and REFERENCE in version:
        texts.append(f"The reference:\n\n```python\n{version[REFERENCE].decode().strip()}\n```")
    starter = starter_templates(manifest)[0]
    template = render_template(manifest, starter, version).strip()
    texts.append(f"Start from this file:\n\n```{starter.language}\n{template}\n```")
    return "\n\n".join(text.strip() for text in texts) + "\n"


class KernelEvaluator:
    """Evaluates kernels for one problem, from any thread and any event loop.

    All evaluators of a process share its supervisors, which start with the first kernel. `problem`
    is the path of a problem of any form. A machine that isolates less than `level_min` evaluates
    nothing.
    """

    def __init__(self, problem: str, *, level_min: str = "medium") -> None:
        files = load_problem(Path(problem), None, (CPU_TYPE,))
        self.slug, self.statement = files.slug, write_statement(files)
        self._level_min = level_min
        # Compiled once, not with every kernel.
        self._folder = tempfile.TemporaryDirectory(prefix="warpboard-problem-")
        write_version(files, Path(self._folder.name))

    async def evaluate(self, source: str, mode: EvaluationMode = "benchmark") -> Evaluation:
        """Evaluate a kernel."""
        evaluator = await asyncio.to_thread(start_evaluator, self._level_min)
        return await anext(evaluator.map(self._folder.name, [source], mode))

    def evaluate_all(
        self, sources: Sequence[str], mode: EvaluationMode = "benchmark"
    ) -> list[Evaluation]:
        """Evaluate kernels at once and return the results in their order."""
        evaluator = start_evaluator(self._level_min)
        results = {result.id: result for result in evaluator.map(self._folder.name, sources, mode)}
        return [results[number] for number in range(len(sources))]


def reward_of(evaluation: Evaluation) -> float | None:
    """Return the reward of a timed kernel, None if the machine could not judge or time it."""
    reward = compute_reward(evaluation)
    is_judged = evaluation.verdict and (reward.is_timed or not reward.has_passed)
    return reward.value if is_judged else None


def start_evaluator(level_min: str) -> Evaluator:
    """Return the evaluator of this process; the first call starts it."""
    with _starting:
        # A fork needs one of its own.
        return _start_evaluator(os.getpid(), level_min)


@functools.cache
def _start_evaluator(_pid: int, level_min: str) -> Evaluator:
    evaluator = Evaluator(level_min=level_min)
    evaluator.start()
    atexit.register(evaluator.close)
    return evaluator
