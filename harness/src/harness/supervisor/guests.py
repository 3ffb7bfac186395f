"""Starts teams of workers for a run: what they are shown, what they may use, how they set up."""

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness.messages import STAGES
from harness.sandbox.box import Launcher, SandboxFault
from harness.sandbox.spec import Limits, Spec
from harness.supervisor.home import Home
from harness.supervisor.output import Log
from harness.supervisor.team import Team
from harness.supervisor.verdict import CaseFailed
from harness.worker import protocol

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_CACHES = ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR")
_HOMES = ("HOME", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR")
_SCRATCH = "/scratch"
_IMPORT_S_MAX = 60.0
_LAST_CHANCE_S = 1.0


@dataclass
class Guests:
    """Every team of a run, so that none is forgotten, and what all of them printed.

    `cores` are the workers' own, none where they share the supervisor's.
    """

    launcher: Launcher
    walls: tuple[str, ...]
    home: Home
    mode: str
    ranks: int
    cores: list[int]
    log: Log = field(default_factory=Log)
    teams: list[Team] = field(default_factory=list)

    def start(self, *, is_null: bool = False) -> Team:
        """A team on its way to READY; a null team has no submission. Errors: SandboxFault."""
        log = Log() if is_null else self.log
        team = Team(self.launcher, self._spec(), log, may_spin=bool(self.cores))
        self.teams.append(team)
        for rank in range(self.ranks):
            wish = {
                "is_null": is_null,
                "environment": self._group(rank),
                "cores": self.cores[: self.ranks],
            }
            team.send(rank, protocol.SETUP + json.dumps(wish).encode())
        return team

    def welcome(self, team: Team, deadline: float) -> None:
        """Waits until every worker is ready. Errors: CaseFailed, with how the import ended."""
        # A worker that was ready in time is not late because the supervisor was slow.
        until = max(deadline, time.monotonic() + _LAST_CHANCE_S)
        for rank in range(self.ranks):
            if team.receive(rank, until, "the import used up its budget") != protocol.READY:
                raise CaseFailed("protocol", "the worker did not say that it is ready")

    def fresh(self, deadline: float) -> Team:
        """A team that is ready. Errors: CaseFailed, SandboxFault."""
        team = self.start()
        self.welcome(team, deadline)
        return team

    def end(self) -> None:
        """Nothing of any team is left after this. Errors: SandboxFault."""
        are_empty = [team.end() for team in self.teams]
        if not all(are_empty):
            raise SandboxFault("a process of the submission could not be killed")

    def usage(self) -> dict[str, float]:
        """Of all teams: seconds of processor together, memory of the largest."""
        found = [team.usage() for team in self.teams]
        return {
            "cpu_s": sum(one.get("cpu_s", 0.0) for one in found),
            "peak_memory_mib": max((one.get("peak_memory_mib", 0.0) for one in found), default=0.0),
        }

    def _spec(self) -> Spec:
        budgets = [self.home.problem.budget_s(stage, self.mode) for stage in STAGES[self.mode]]
        scratch = "" if "namespaces" in self.walls else self._scratch()
        return Spec(
            walls=self.walls,
            limits=Limits(cpu_s=int(sum(budgets)) + 1),
            submission=str(self.home.submission),
            main=self.home.problem.submission,
            environment=_environment(scratch or _SCRATCH),
            ranks=self.ranks,
            scratch=scratch,
        )

    def _scratch(self) -> str:
        """A fresh folder for a team that has no file system of its own."""
        folder = self.home.scratch / str(len(self.teams))
        folder.mkdir()
        folder.chmod(0o777)
        return str(folder)

    def _group(self, rank: int) -> dict[str, str]:
        """Where the ranks of a team find each other, on the loopback of their own network."""
        if self.ranks == 1:
            return {}
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        return where | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self.ranks)}


def _environment(scratch: str) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict.fromkeys(_THREADS, "1"),
        **dict.fromkeys(_HOMES, scratch),
        **dict.fromkeys(_CACHES, f"{scratch}/cache"),
    }
