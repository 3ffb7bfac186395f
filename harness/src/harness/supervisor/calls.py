"""One gated call: reveal the input, hold the output, judge it, and only then look at the clock.

The order is the defence. Before the clock starts the worker has seen nothing of the input; after
it stops nothing can change the answer, for the supervisor holds a copy; the reference is computed
when the answer is committed, so it exists nowhere while the worker could look for it.
"""

import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self, TypeVar

from harness.devices.device import Foul, Memory, Window
from harness.problem import Case
from harness.sandbox import processes
from harness.supervisor.author import at
from harness.supervisor.inputs import Shape, shapes_text
from harness.supervisor.judging import AnswerWanted, Court, expected, judge
from harness.supervisor.seat import Seat
from harness.supervisor.team import Team
from harness.supervisor.verdict import CaseFailed, printable
from harness.worker import protocol

CALL_S_MIN = 5.0
CALL_REFERENCES_MAX = 20
_IDLE_ODDS = 4
_IDLE_S = 0.01
_LOOK_S = 0.001
_LATE_S_MAX = 5.0
# 3 us of copying; to stop the workers takes 5 (2 cores, 2026-11).
_COPY_BYTES_SHORT = 256 * 1024

Result = TypeVar("Result")


class Gate:
    """A case whose inputs a team of workers sees one call at a time.

    `shapes` has one for each rank. Of the last call, `idle_us` is how long no worker ran, and
    `waited_us` how long a worker wanted a core and had none; 0 where that cannot be known.
    """

    def __init__(self, court: Court, team: Team, case: Case, shapes: Sequence[Shape]) -> None:
        self._court = court
        self._author = court.author
        self._device = court.device
        self._defences = court.defences
        self._warmer = court.warmer
        self.team = team
        self.case = case
        self.shapes = shapes
        self._seats: list[Seat] = []
        self.nonce = b""
        self._is_armed = False
        self._is_said = False
        self._is_long = False
        self._declared: list[bytes] = [b""] * len(shapes)
        self._messages: list[bytes] = []
        self._descriptors: Sequence[int] = ()
        self._until = 0.0
        self._limit = ""
        self._spent_us: int | None = None
        self._waited_before_us = 0.0
        self.idle_us = 0.0
        self.waited_us = 0.0

    def __enter__(self) -> Self:
        """Hands the memories to the workers; they see no input in them yet."""
        self._seats = [
            Seat(self._device.of_rank(rank), shape) for rank, shape in enumerate(self.shapes)
        ]
        self._is_long = sum(len(seat.snapshot) for seat in self._seats) > _COPY_BYTES_SHORT
        for rank, seat in enumerate(self._seats):
            descriptors = [memory.descriptor for memory in seat.memories]
            self.team.send(rank, protocol.CASE + seat.layout(), descriptors)
        return self

    def __exit__(self, *_: object) -> None:
        """Lets go of the memories."""
        for seat in self._seats:
            seat.close()

    def call(self, seed: int, deadline: float) -> float:
        """One call under a seed, judged. Units: microseconds out, `deadline` in monotonic seconds.

        Errors: CaseFailed, for anything but a right answer in time; ProblemFault, DeviceFault.
        """
        time_us = self.run(seed, deadline)
        self._freeze()
        self.idle_us = _idle_us(time_us, self._spent_us, self.team.cpu_us())
        self._require_stillness()
        self._judge_all()
        return time_us

    def run(
        self,
        seed: int,
        deadline: float,
        order: bytes = protocol.GO,
        descriptors: Sequence[int] = (),
    ) -> float:
        """One call that nobody judges, such as one under a profiler."""
        self._prepare(seed)
        self._set_limit(deadline)
        return self._reveal(self._device.timed, order, descriptors)

    def warm_up(self, seed: int, budget_s: float) -> None:
        """One call that is neither timed nor judged: the submission may compile for the shapes.

        Errors: as `call`, but for a wrong answer, which is thrown away.
        """
        self._prepare(seed)
        self._until = time.monotonic() + budget_s
        shapes = shapes_text(self.shapes[0])
        self._limit = f"the warm-up for {shapes} took more than the build budget of {budget_s:g} s"
        self._reveal(self._device.run_untimed, protocol.GO, ())
        self._freeze()

    def null(self, seed: int, deadline: float) -> float:
        """One call of a null worker. It may see one input again and again: it does not look."""
        self._freeze()
        if not self._seats[0].has_data:
            time_us = self.run(seed, deadline)
        else:
            self._set_limit(deadline)
            time_us = self._reveal(self._device.timed, protocol.GO, ())
        # It may go on looking for the next call, and the submission is to have the core.
        self._freeze()
        return time_us

    def _prepare(self, seed: int) -> None:
        """Makes the data of a call, and fills the outputs with noise, while the workers stand."""
        self._freeze()
        for rank, seat in enumerate(self._seats):
            with self._at(rank):
                seat.prepare(self._data(seed, rank))
            if self._defences.poisons:
                seat.poison.renew()

    def _reveal(
        self, run: Callable[[Window], Result], order: bytes, descriptors: Sequence[int]
    ) -> Result:
        self._descriptors = descriptors
        self._order(order)
        self._spent_us = self.team.cpu_us()
        self._device.flush()
        if self._defences.requires_silence:
            self.team.require_silence()
        self._warmer.wake()
        try:
            return run(self)
        except Foul as foul:
            raise CaseFailed(foul.verdict, str(foul)) from foul

    @property
    def memories(self) -> list[tuple[Memory, Memory]]:
        """Inputs and outputs of each rank."""
        return [seat.memories for seat in self._seats]

    def show(self) -> None:
        """Copies the private inputs to where the workers see them."""
        for seat in self._seats:
            seat.show()
        self._waited_before_us = self.team.waited_us()

    def go(self) -> None:
        """Thaws the workers, tells each the nonce of this call, and leaves their core to them."""
        self.team.thaw()
        for rank, message in enumerate(self._messages):
            self.team.send(rank, message, self._descriptors)
        self._warmer.release()

    def armed(self, within_s: float) -> bool:
        """Waits until every worker has enqueued its work, and stops them; False if one is late."""
        until = time.monotonic() + within_s
        for rank in range(len(self._messages)):
            said = self.team.heard(rank, until)
            if said is None:
                return False
            if said != protocol.ARMED + self.nonce:
                raise CaseFailed("protocol", "the worker answered what was not asked")
        self._freeze()
        self._is_armed = True
        return True

    def wait(self) -> None:
        """Waits for every worker's answer. Errors: CaseFailed."""
        done, armed = protocol.DONE + self.nonce, protocol.ARMED + self.nonce
        if self._is_armed:
            self.team.thaw()
        for rank in range(len(self._messages)):
            said = self.team.receive(rank, self._until, self._limit)
            # On a GPU, who was too late to be armed says so first.
            if said == armed and self._device.name != "cpu" and not self._is_armed:
                said = self.team.receive(rank, self._until, self._limit)
            self._declared[rank] = said[len(done) :]
            is_told = self._declared[rank] and not self.shapes[rank].is_checked
            if said[: len(done)] != done or is_told:
                raise CaseFailed("protocol", "the worker answered what was not asked")
        self._is_said = True

    def hold(self) -> None:
        """Copies the outputs; the clock stops after this, never before.

        The workers are stopped before a long copy: who may run on meanwhile could answer early and
        write just ahead of it. A short one takes less than stopping them; and behind a gate the
        copy is enqueued before they have answered, when some may not even have seen their input.
        """
        if not self._defences.stops_after_snapshot:
            _let_work_end()
        if self._is_long and self._is_said:
            self._freeze()
        for seat in self._seats:
            seat.hold()
        # Later would count what has nothing to do with the call; sooner would delay the copy.
        # While one rank waits another may be at work, so of several ranks nothing can be said.
        if len(self._seats) == 1:
            self.waited_us = self.team.waited_us() - self._waited_before_us

    def _at(self, rank: int) -> AbstractContextManager[None]:
        """Within it the author's code makes its tensors where the rank's are."""
        return at(self._device.of_rank(rank).place)

    def _data(self, seed: int, rank: int) -> Any:
        """The author's data for one seat."""
        return self._author.data(self.case, seed, rank)

    def _freeze(self) -> None:
        if self._defences.freezes:
            self.team.freeze()

    def _order(self, order: bytes) -> None:
        self._is_armed = self._is_said = False
        size = protocol.NONCE_BYTES
        self.nonce = secrets.token_bytes(size) if self._defences.has_nonce else bytes(size)
        self._messages = [order + self.nonce + seat.scalars() for seat in self._seats]

    def _set_limit(self, deadline: float) -> None:
        slowest_s = max(shape.reference_s for shape in self.shapes)
        call_s = max(CALL_S_MIN, CALL_REFERENCES_MAX * slowest_s)
        self._until = time.monotonic() + call_s
        self._limit = f"one call took more than {call_s:.0f} s"
        if self._until > deadline:
            self._until, self._limit = deadline, "the stage used up its budget"

    def _judge_all(self) -> None:
        """Every rank's answer; again with the reference's, where only all ranks can compute it."""
        count = len(self._seats)
        try:
            self._author.each(self.case, count, self._judge)
        except AnswerWanted:
            known = self._author.each(self.case, count, self._expected)
            self._author.each(self.case, count, lambda rank: self._judge(rank, known[rank]))

    def _expected(self, rank: int) -> list[Any]:
        seat = self._seats[rank]
        with self._at(rank):
            return expected(self._author, self.case, seat, seat.shown.flat)

    def _judge(self, rank: int, known: Sequence[Any] | None = None) -> None:
        seat, said = self._seats[rank], self._declared[rank]
        try:
            with self._at(rank):
                judge(self._court, self.case, seat, said, known)
        except CaseFailed as failure:
            if len(self._seats) > 1:
                failure.message = printable(f"rank {rank}: {failure.message}")
            raise

    def _require_stillness(self) -> None:
        """After the commit nothing may change; now and then there is time for that to show."""
        if secrets.randbelow(_IDLE_ODDS) == 0:
            self.team.thaw()
            time.sleep(_IDLE_S)
            self._freeze()
        if self._defences.requires_stillness and not all(seat.is_still() for seat in self._seats):
            raise CaseFailed("late_write", "the output changed after the call had returned")


def _let_work_end() -> None:
    """What a clock that stops at the answer grants: all that the workers go on doing after it.

    A core may stand still for a while, so that is over when none of them wants one, not sooner.
    """
    until = time.monotonic() + _LATE_S_MAX
    while processes.is_any_running(os.getppid(), but=os.getpid()) and time.monotonic() < until:
        time.sleep(_LOOK_S)


def _idle_us(time_us: float, before_us: int | None, after_us: int | None) -> float:
    """How long no worker was on a core during a call; 0 where that cannot be known."""
    if before_us is None or after_us is None:
        return 0.0
    return max(0.0, time_us - (after_us - before_us))
