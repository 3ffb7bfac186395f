"""The profile stage: what profilers saw of one call, as files that nobody here looks into."""

import os
from collections.abc import Iterator, Sequence

from harness.messages import Artefact
from harness.problem import Case
from harness.supervisor.calls import Gate
from harness.supervisor.captured import Capturer, File
from harness.supervisor.guests import Guests
from harness.supervisor.inputs import Shape
from harness.supervisor.judging import Court
from harness.supervisor.purse import Purse
from harness.supervisor.team import Team
from harness.supervisor.verdict import CaseFailed, harmless
from harness.supervisor.warm_ups import WarmUps
from harness.toolchains.cache import taken
from harness.worker.protocol import PROFILE, WARM

_TRACE = ("trace.json.gz", "application/gzip")
_TABLE = ("table.txt", "text/plain")
_BYTES_MAX = 16 * 1024**2


class Profiler:
    """Profiles one case after another in a team, and keeps what it saw."""

    def __init__(self, court: Court, guests: Guests, warm_ups: WarmUps) -> None:
        self._court = court
        self._guests = guests
        self._warm_ups = warm_ups
        self._team: Team | None = None
        self._capturer = Capturer(court, guests)
        self.artefacts: list[Artefact] = []

    def warm(self, team: Team, deadline: float) -> None:
        """From now on this team, whose workers import the profiler first. Errors: CaseFailed."""
        if team is self._team:
            return
        team.thaw()
        for rank in range(team.ranks):
            team.send(rank, WARM)
        self._guests.welcome(team, deadline)
        self._team = team

    def run(
        self, case: Case, number: int, how: tuple[Sequence[Shape], Iterator[int]], purse: Purse
    ) -> None:
        """Trace and table of one call, and what ncu saw. Errors: CaseFailed, if any is empty."""
        shapes, seeds = how
        self._keep(number, self._recorded(case, shapes, seeds, purse))
        if self._capturer.is_for(case):
            self._keep(number, self._capturer.files(case, shapes[0], purse.ends_at))

    def _recorded(
        self, case: Case, shapes: Sequence[Shape], seeds: Iterator[int], purse: Purse
    ) -> list[File]:
        assert self._team is not None
        memories = [os.memfd_create("profile", os.MFD_CLOEXEC) for _ in (_TRACE, _TABLE)]
        try:
            with Gate(self._court, self._team, case, shapes) as gate:
                self._warm_ups.warm_up(gate, purse)
                gate.call(next(seeds), purse.ends_at)
                gate.run(next(seeds), purse.ends_at, PROFILE, memories)
            trace, table = (taken(memory, _BYTES_MAX) for memory in memories)
        finally:
            for memory in memories:
                os.close(memory)
        if not table:
            raise CaseFailed("crashed", "the profile is empty")
        return [(*_TRACE, trace), (*_TABLE, table)]

    def _keep(self, number: int, files: Sequence[File]) -> None:
        for name, media, data in files:
            # The submission names what it does in there.
            kept = harmless(data)[:_BYTES_MAX] if media == "text/plain" else data
            if kept:
                full = f"profile-{number}-{name}"
                self._guests.home.keep(full, kept)
                self.artefacts.append(Artefact(full, media, len(kept)))
