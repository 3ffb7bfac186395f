"""A run by a problem's own program, in the sandbox: the compatibility mode.

The submission and what judges and times it share a process, so its tier is G0, as for every clock
that a submission can reach, and none of its times ranks where an operator does not say so.
"""

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from harness.devices import cpu
from harness.messages import (
    STAGES,
    VERSION,
    Artefact,
    CaseReport,
    Progress,
    RunReport,
    RunRequest,
    StageFinished,
    Started,
)
from harness.problem import Case
from harness.sandbox.spec import WALLS
from harness.supervisor import building, lines, verdict
from harness.supervisor.guests import Guests
from harness.supervisor.home import Home
from harness.supervisor.inputs import KEY_BYTES, seed_of
from harness.supervisor.verdict import CaseFailed
from harness.toolchains.cache import taken

TIER = "G0"
_MODES = {"check": "test", "hidden_check": "test", "timed_check": "test"}
# The public words for what follows the tests.
_LAST = {"ranked": "leaderboard", "profile": "profile"}
_CHUNK_BYTES = 64 * 1024
_STATUS_BYTES_MAX = 16
_DRAIN_S = 10.0
_SEED_BITS = 31

Tell = Callable[[Started | Progress | StageFinished], None]


class Compat:
    """One run: each stage is the program, called once in a box of its own."""

    def __init__(
        self, request: RunRequest, home: Home, guests: Guests, level: str, tell: Tell
    ) -> None:
        """`level` is that of isolation."""
        self.guests = guests
        self._tell = tell
        self._request = request
        self._home = home
        self._problem = home.problem
        self._level = level
        self._key = bytes.fromhex(request.key) if request.key else secrets.token_bytes(KEY_BYTES)
        self._cases: list[CaseReport] = []
        self._stage = ""
        self._program: tuple[int, ...] = ()
        self._artefacts: list[Artefact] = []
        self._failed: CaseReport | None = None
        self._has_left = False

    def execute(self) -> RunReport:
        """The stages in order, until one does not pass. Errors: as every run's."""
        try:
            self._tell(self._started())
            for stage in STAGES[self._request.mode]:
                self._run(stage)
                if self._failed:
                    break
        finally:
            try:
                self.guests.end()
            except CaseFailed as failure:
                self._has_left = True
                self._failed = verdict.report("", self._stage, failure)
            finally:
                self._home.keep("log.txt", self.guests.log.whole().encode())
        return self._report()

    def _started(self) -> Started:
        return Started(
            harness=VERSION,
            level=self._level,
            tier=TIER,
            key_commit=hashlib.sha256(self._key).hexdigest(),
            environment=cpu.describe(),
            missing=[wall for wall in WALLS if wall not in self.guests.place.walls],
        )

    def _run(self, stage: str) -> None:
        began = time.monotonic()
        self._stage = stage
        mode = self._request.mode
        case = self._request.case
        cases = self._problem.cases(stage, mode, case) if stage != "build" else ()
        if cases:
            self._tell(Progress(stage, cases[0].name, 0, len(cases)))
        deadline = began + self._problem.budget_s(stage, mode)
        try:
            found = self._called(stage, cases, deadline)
        except CaseFailed as failure:
            first = cases[0].name if cases else ""
            found = [verdict.report(first, stage, failure)]
            found += [CaseReport(one.name, stage, "skipped") for one in cases[1:]]
        if stage == "hidden_check":
            found = [verdict.hidden(one) for one in found]
        self._cases += found if stage != "build" else []
        self._failed = verdict.first_failed(found)
        ended = self._failed.verdict if self._failed else "passed"
        self._tell(StageFinished(stage, ended, time.monotonic() - began, len(found)))

    def _called(self, stage: str, cases: Sequence[Case], deadline: float) -> list[CaseReport]:
        order: dict[str, object] = {
            "scratch": self.guests.scratch(),
            "submission": self._problem.submission,
        }
        if stage == "build" and self._problem.lang == "cu":
            self._program = building.program(self.guests, deadline)
            return []
        if stage == "build":
            self._ordered(order | {"must_import": "yes"}, deadline)
            return []
        mode = _LAST.get(self._request.mode, "benchmark")
        seed = seed_of(self._key, "popcorn", "", 0, _SEED_BITS)
        is_secret = self._request.mode == "ranked" and stage != "check"
        told = {"POPCORN_SEED": str(seed)} if is_secret else {}
        if self._problem.ranks > 1:
            told["POPCORN_GPUS"] = str(self._problem.ranks)
        asked = {"mode": _MODES.get(stage, mode), "main": self._problem.main}
        asked |= {"cases": lines.text_of(cases)}
        reported, status = self._ordered(order | asked | {"environment": told}, deadline)
        said = lines.read(reported)
        found = lines.reports(stage, cases, said, status)
        if stage == "profile":
            self._keep(lines.profiles(said, len(cases)))
        return found

    def _keep(self, profiles: Mapping[str, bytes]) -> None:
        """Files that nobody here looks into."""
        for name, data in profiles.items():
            text = verdict.harmless(data)
            self._home.keep(name, text)
            self._artefacts.append(Artefact(name, "text/plain", len(text)))

    def _ordered(self, order: dict[str, object], deadline: float) -> tuple[bytes, int]:
        """What the program reported, and its exit status. Errors: CaseFailed."""
        heard, said = os.pipe()
        ended = os.memfd_create("ended", os.MFD_CLOEXEC)
        # Drained while it runs: a pipe that nobody reads would stop it.
        drain = _Drain(heard)
        try:
            try:
                given = (said, ended, *self._program)
                team = self.guests.start_popcorn({"popcorn": order}, given)
            finally:
                os.close(said)
            self.guests.welcome(team, deadline, "the program used up its budget")
            team.end()
            drain.join(_DRAIN_S)
            return drain.data, _status(taken(ended, _STATUS_BYTES_MAX))
        finally:
            os.close(ended)

    def _report(self) -> RunReport:
        head, tail = self.guests.log.ends()
        return RunReport(
            verdict=self._failed.verdict if self._failed else "passed",
            stage=self._stage,
            reason=verdict.sentence(self._failed),
            took_s=0.0,
            key=self._key.hex(),
            cases=self._cases,
            log_head=head,
            log_tail=tail,
            log_bytes=self.guests.log.bytes,
            has_left=self._has_left,
            artefacts=self._artefacts,
        )


class _Drain(threading.Thread):
    """Reads a pipe to its end, and keeps so much of it at most."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._descriptor = descriptor
        self.data = b""
        self.start()

    def run(self) -> None:
        while chunk := os.read(self._descriptor, _CHUNK_BYTES):
            room = lines.LINES_BYTES_MAX + 1 - len(self.data)
            self.data += chunk[:room]
        os.close(self._descriptor)


def _status(text: bytes) -> int:
    """An exit status as the box tells it, which nobody need believe."""
    try:
        return int(text or b"0")
    except ValueError:
        raise CaseFailed("protocol", "the program's end was told in no number") from None
