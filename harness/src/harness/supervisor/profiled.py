"""The profile stage: what a profiler saw of one call, as files that nobody here looks into."""

import os
from collections.abc import Iterator, Sequence

from harness.messages import Artefact
from harness.problem import Case
from harness.supervisor.calls import Court, Gate
from harness.supervisor.home import Home
from harness.supervisor.inputs import Shape
from harness.supervisor.team import Team
from harness.supervisor.verdict import CaseFailed
from harness.toolchains.cache import taken
from harness.worker.protocol import PROFILE

_TRACE = ("trace.json.gz", "application/gzip")
_TABLE = ("table.txt", "text/plain")
_BYTES_MAX = 16 * 1024**2


class Profiler:
    """Profiles one case after another in a team that has been checked."""

    def __init__(self, court: Court, team: Team, home: Home) -> None:
        self._court = court
        self._team = team
        self._home = home

    def run(
        self, case: Case, number: int, how: tuple[Sequence[Shape], Iterator[int]], deadline: float
    ) -> list[Artefact]:
        """A trace and a table of one call. Errors: CaseFailed, if there is nothing in them."""
        shapes, seeds = how
        memories = [os.memfd_create("profile", os.MFD_CLOEXEC) for _ in (_TRACE, _TABLE)]
        try:
            with Gate(self._court, self._team, case, shapes) as gate:
                gate.call(next(seeds), deadline)
                gate.run(next(seeds), deadline, PROFILE, memories)
            found = [taken(memory, _BYTES_MAX) for memory in memories]
        finally:
            for memory in memories:
                os.close(memory)
        if not found[1]:
            raise CaseFailed("crashed", "the profile is empty")
        return [
            self._kept(f"profile-{number}-{name}", media, data)
            for (name, media), data in zip((_TRACE, _TABLE), found, strict=True)
            if data
        ]

    def _kept(self, name: str, media: str, data: bytes) -> Artefact:
        self._home.keep(name, data)
        return Artefact(name, media, len(data))
