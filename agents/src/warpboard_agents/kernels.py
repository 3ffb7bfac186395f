"""What all adapters share: a problem as a model sees it, and the evaluation of its kernels."""

import atexit
import functools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.evaluations import Evaluation
from harness.evaluator import EvaluationMode, Evaluator
from harness.vocabulary import CPU_TYPE, EVALUATION_LEVEL_MIN
from shared.checks.problem_files import ProblemFiles
from shared.problem_versions import load_problem, write_version
from shared.problems.templates import render_template, starter_templates

STATEMENT, REFERENCE = "statement.md", "reference.py"


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

    All evaluators of a process share its supervisors, which the first one starts. `problem` is the
    path of a problem of any form. A machine that isolates less than `level_min` evaluates nothing.
    """

    def __init__(self, problem: str, *, level_min: str = EVALUATION_LEVEL_MIN) -> None:
        files = load_problem(Path(problem), None, (CPU_TYPE,))
        self.slug, self.statement = files.slug, write_statement(files)
        # Compiled once, not with every kernel.
        self._folder = tempfile.TemporaryDirectory(prefix="warpboard-problem-")
        write_version(files, Path(self._folder.name))
        # A fork needs an evaluator of its own.
        self._evaluator = _start_evaluator(os.getpid(), level_min)

    async def evaluate(self, source: str, mode: EvaluationMode = "benchmark") -> Evaluation:
        """Evaluate a kernel."""
        return await anext(self._evaluator.map(self._folder.name, [source], mode))

    def evaluate_all(
        self, sources: Sequence[str], mode: EvaluationMode = "benchmark"
    ) -> list[Evaluation]:
        """Evaluate kernels at once and return the results in their order."""
        results = {
            result.id: result for result in self._evaluator.map(self._folder.name, sources, mode)
        }
        return [results[number] for number in range(len(sources))]


@functools.cache
def _start_evaluator(_pid: int, level_min: str) -> Evaluator:
    evaluator = Evaluator(level_min=level_min)
    evaluator.start()
    atexit.register(evaluator.close)
    return evaluator
