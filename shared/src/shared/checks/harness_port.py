"""The port to the harness that a check runs in: an author's own, or an agent's."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from shared.api.fields import JsonObject
from shared.api.submissions import Progress, SubmissionRequest
from shared.checks.problem_files import ProblemFiles

ShowProgress = Callable[[Progress], Awaitable[None]]


class CheckHarness(Protocol):
    """Inspects a problem's own code, and runs files against it. All methods may raise Failed."""

    @property
    def gpu(self) -> str:
        """The GPU type of this machine, `CPU` without one."""

    async def inspect(
        self, problem: ProblemFiles, report_progress: ShowProgress, *, scaled_s: float = 0.0
    ) -> JsonObject:
        """Inspect a problem's own code; return findings, or why it could not be inspected.

        With `scaled_s`, only measure how far the check lets right answers move to lazy ones, for so
        many seconds.
        """

    async def run(
        self, problem: ProblemFiles, submission: SubmissionRequest, *, is_reference: bool = False
    ) -> JsonObject:
        """Run one file; return its end in the keys of a run, without a verdict if we fail.

        With `is_reference` the reference of a problem in Python is submitted, and no source.
        """
