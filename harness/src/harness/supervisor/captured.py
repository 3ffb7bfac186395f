"""One call of a submission under ncu, in a box of its own: files that nobody here looks into."""

import os
from dataclasses import dataclass
from typing import Any

from harness.devices import cpu
from harness.problem import Case
from harness.supervisor.guests import Guests
from harness.supervisor.inputs import Shape
from harness.supervisor.judging import Court
from harness.supervisor.seat import Seat
from harness.supervisor.verdict import CaseFailed
from harness.toolchains import ncu, probe
from harness.toolchains.cache import sealed, taken
from harness.toolchains.plan import cache_folder
from harness.worker import protocol

File = tuple[str, str, bytes]

# Name, type, and how much is taken from the worker's hand.
_FILES = (
    ("ncu.ncu-rep", "application/octet-stream", protocol.REPORT_BYTES_MAX),
    ("ncu.txt", "text/plain", protocol.PAGE_BYTES_MAX),
    ("ncu.csv", "text/csv", protocol.CSV_BYTES_MAX),
)


@dataclass(frozen=True)
class Capturer:
    """Captures a call of each case that a machine's ncu is of use for."""

    court: Court
    guests: Guests

    def is_for(self, case: Case) -> bool:
        """Whether there is anything to capture of a case here."""
        return self._ncu.is_for(self.court.device.name, case.ranks)

    def files(self, case: Case, shape: Shape, deadline: float) -> list[File]:
        """Report, text and table of one call, under the seed that everybody knows.

        Without a report the text says why ncu may not make one. Errors: CaseFailed, if there is
        nothing in them; ProblemFault.
        """
        # ncu replays kernels for as long as it likes: no gate, no clock, memory of the processor.
        seat = Seat(cpu.Cpu(is_frozen=False), shape)
        memories = [os.memfd_create("capture", os.MFD_CLOEXEC) for _ in _FILES]
        program = sealed(ncu.packed())
        try:
            seat.prepare(self.court.author.data(case, case.seed or 0, 0))
            seat.show()
            shown = [memory.descriptor for memory in seat.memories]
            self._capture(seat, [*memories, program, *shown], deadline)
            found = [
                (name, media, taken(memory, bytes_max))
                for (name, media, bytes_max), memory in zip(_FILES, memories, strict=True)
            ]
        finally:
            seat.close()
            for memory in (*memories, program):
                os.close(memory)
        return _kept(found)

    @property
    def _ncu(self) -> ncu.Ncu:
        return self.guests.place.workshop.ncu

    def _capture(self, seat: Seat, given: list[int], deadline: float) -> None:
        shown = tuple(sorted({*probe.shown(), *self._ncu.folders}))
        order = {"capture": self._order(seat, self.guests.scratch())}
        team = self.guests.start_profiler(order, (*given, *self.guests.built), shown)
        try:
            if team.receive(0, deadline, "ncu used up the stage's budget") != protocol.READY:
                raise CaseFailed("protocol", "the profiler did not say that it is ready")
        finally:
            team.end()

    def _order(self, seat: Seat, scratch: str) -> dict[str, Any]:
        """What harness.worker.capture is told."""
        report = f"{scratch}/profile"
        replay = {
            "wish": self.guests.given,
            "cache": cache_folder(scratch),
            "layout": seat.layout().decode(),
            "scalars": seat.scalars().decode(),
            "device": self.court.device.place,
        }
        return {
            "environment": ncu.ENVIRONMENT,
            "command": ncu.command(self._ncu.path, report),
            "pages": ncu.pages(self._ncu.path, report),
            "report": report + ncu.REPORT_SUFFIX,
            "replay": replay,
        }


def _kept(found: list[File]) -> list[File]:
    kept = [(name, media, data) for name, media, data in found if data]
    if not kept:
        raise CaseFailed("crashed", "the profile is empty: ncu handed nothing over")
    return kept
