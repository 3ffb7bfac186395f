"""The yardstick of a timed run: a fixed correct kernel of the problem, in a box of the platform's.

It is the reference, or the solution that the problem names. It is built and started like a
submission, but its failures are the problem's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from harness.build.plan import BuildCache
from harness.build.teams import IMPORT, WorkerTeams, prepare_submission
from harness.messages import CaseFailed
from harness.problem import ProblemFault
from harness.sandbox import host
from harness.sandbox.box import SandboxFault
from harness.sandbox.team import Team

LOG = "yardstick-log.txt"


class YardstickTeams(WorkerTeams):
    """The teams of the yardstick. Every method raises ProblemFault instead of CaseFailed."""

    @classmethod
    def beside(cls, worker_teams: WorkerTeams) -> Self | None:
        """Return the teams of the yardstick of the same run; None if the run has none."""
        directory = worker_teams.directory.yardstick
        if directory is None:
            return None
        # Where the reference runs otherwise, it has no limit but the machine's.
        memory_bytes = host.sandbox_bytes_max(worker_teams.setup.machine.slots)
        problem = replace(directory.problem, memory_bytes=memory_bytes)
        directory = replace(directory, problem=problem)
        ranks, pause = worker_teams.ranks, worker_teams.pause
        return cls(worker_teams.setup, directory, worker_teams.mode, ranks, pause=pause)

    def start(self, ranks: int) -> Team:
        """Start a team of `ranks` workers. Raises SandboxFault, ProblemFault."""
        with blame_yardstick():
            return super().start(ranks)

    def wait_until_ready(self, team: Team, part: str = IMPORT, limit_s: float = 0.0) -> None:
        """Wait until every worker is ready. Raises ProblemFault."""
        with blame_yardstick():
            super().wait_until_ready(team, part, limit_s)

    def end(self) -> None:
        """End every team and keep their output. Raises SandboxFault if one cannot be killed."""
        try:
            super().end()
        except CaseFailed as failure:
            raise SandboxFault(f"of the yardstick, {failure.message}") from failure
        finally:
            if self.log.bytes:
                self.directory.keep(LOG, self.log.whole().encode())


@contextmanager
def blame_yardstick(case: str = "") -> Iterator[None]:
    """Raise ProblemFault for a failure of the yardstick within, on the case of this name."""
    try:
        yield
    except CaseFailed as failure:
        place = f" on {case}" if case else ""
        fault = f"the yardstick failed ({failure.verdict}){place}: {failure.message}"
        raise ProblemFault(f"{fault}: name a correct solution as `yardstick`") from failure


def prepare_both(
    worker_teams: WorkerTeams, yardstick_teams: YardstickTeams | None, cache: BuildCache
) -> None:
    """Build a submission, then the yardstick if there is one; `prepare_submission` tells the rest.

    Raises ProblemFault if the yardstick cannot be built.
    """
    prepare_submission(worker_teams, cache, is_last=yardstick_teams is None)
    if yardstick_teams is not None:
        with blame_yardstick():
            prepare_submission(yardstick_teams, cache)
