"""One gated call: reveal the input, copy the output, judge it, and only then report the time.

The order is the defence. Before the clock starts, the worker has seen nothing of the input. After
it stops, nothing can change the answer, because the supervisor holds a copy. The reference is
computed after the answer is committed, so it exists nowhere while the worker could look for it.
"""

import functools
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Self, TypeVar

from harness.build.teams import StageBudget
from harness.check.author import on_device
from harness.check.buffers import RankBuffers
from harness.check.inputs import Shape, describe_shapes, probe_shape
from harness.check.judging import (
    JudgeContext,
    ReferenceAnswerNeeded,
    compute_expected,
    judge_answer,
)
from harness.devices.device import Memory, RuleViolation, Window
from harness.messages import CaseFailed, make_printable
from harness.problem import Case
from harness.sandbox import linux
from harness.sandbox.preparation import PreparationPart
from harness.sandbox.team import Team
from harness.worker import protocol

CALL_S_MIN = 5.0
CALL_REFERENCES_MAX = 20
_IDLE_ODDS = 4
_IDLE_S = 0.01
_LOOK_S = 0.001
_LATE_S_MAX = 5.0
# Many times what the late work of a test takes, some 3 ms, also on a slow core.
_LATE_CPU_US = 50_000
# Copying this much takes 3 us; stopping the workers takes 5 us (2 cores, 2026-11).
_COPY_BYTES_SHORT = 256 * 1024

Result = TypeVar("Result")

# Takes the place of a stage when seeds of warm-up calls are derived; no other call has them.
WARM_UP = "warm_up"


def is_watched_call(calls: int) -> bool:
    """Return whether this one of so many calls is watched: on average one in four blocks."""
    return secrets.randbelow(_IDLE_ODDS * calls) == 0


class GatedCase:
    """A case whose inputs a team of workers sees one call at a time.

    `shapes` has one shape per rank. After a call, `idle_us` is how long no worker ran,
    `waited_us` how long a worker waited for a core, and `referee_waited_us` how long the referee
    did, all while the clock ran; each is 0 where it cannot be measured.

    The data of several calls can be drawn ahead, so that they are timed in succession and judged
    afterwards: a worker sees the data of a call only when it begins, and its reference answer is
    computed only after its answer has been copied.
    """

    def __init__(
        self, judge_context: JudgeContext, team: Team, case: Case, shapes: Sequence[Shape]
    ) -> None:
        self._judge_context = judge_context
        self._author = judge_context.author
        self._device = judge_context.device
        self._defences = judge_context.defences
        self._core_keep_awake = judge_context.core_keep_awake
        self._referee = judge_context.referee
        self.team = team
        self.case = case
        self.shapes = shapes
        self._buffers: list[RankBuffers] = []
        self.nonce = b""
        self._is_armed = False
        self._has_answered = False
        self._is_large = False
        # By call and rank: how the outputs are to be read.
        self._declared: list[list[bytes]] = []
        self._call_index = 0
        self._messages: list[bytes] = []
        self._descriptors: Sequence[int] = ()
        self._part: PreparationPart | None = None
        self._ends_at = 0.0
        self._limit_reason = ""
        self._cpu_before_us: int | None = None
        self._waited_before_us = self._referee_waited_before_us = 0.0
        self.idle_us = 0.0
        self.waited_us = 0.0
        self.referee_waited_us = 0.0

    def __enter__(self) -> Self:
        """Send the memories to the workers; they hold no input yet, but tell its shape."""
        if self.case.is_hidden:
            self.team.withhold_output()
        self._buffers = [
            RankBuffers(self._device.of_rank(rank), shape) for rank, shape in enumerate(self.shapes)
        ]
        output_bytes = sum(buffers.output_bytes for buffers in self._buffers)
        self._is_large = output_bytes > _COPY_BYTES_SHORT
        for rank, buffers in enumerate(self._buffers):
            descriptors = [memory.descriptor for memory in buffers.memories]
            self.team.send(rank, protocol.CASE + buffers.layout(), descriptors)
        return self

    def __exit__(self, *_: object) -> None:
        """Release the memories."""
        for buffers in self._buffers:
            buffers.close()

    def call(
        self,
        seed: int,
        deadline: float,
        order: bytes = protocol.GO,
        descriptors: Sequence[int] = (),
    ) -> float:
        """Make one judged call and return its time in microseconds.

        `deadline` is an instant of the monotonic clock. Raises CaseFailed for anything but a right
        answer in time; ProblemFault; DeviceFault.
        """
        self.draw([seed])
        time_us = self.time(0, deadline, order, descriptors, is_watched=is_watched_call(1))
        self.judge(0)
        return time_us

    def draw(self, seeds: Sequence[int]) -> None:
        """Generate the private data of the next calls. Raises ProblemFault."""
        self._freeze()
        for rank, buffers in enumerate(self._buffers):
            with self._at(rank):
                buffers.prepare(*(self._data(seed, rank) for seed in seeds))
        self._declared = [[b""] * len(self.shapes) for _ in seeds]

    def share(self, other: "GatedCase") -> None:
        """Use the data of another team's next calls for the next calls of this one.

        Both must have been timed before one is judged: a problem's check may write to the data.
        """
        self._freeze()
        for buffers, theirs in zip(self._buffers, other.rank_buffers, strict=True):
            buffers.take(theirs.calls)
        self._declared = [[b""] * len(self.shapes) for _ in self._buffers[0].calls]

    def time(
        self,
        index: int,
        deadline: float,
        order: bytes = protocol.GO,
        descriptors: Sequence[int] = (),
        *,
        is_watched: bool = False,
    ) -> float:
        """Make a call with data that was drawn; return its time in microseconds.

        It is not judged yet. With `is_watched`, a late write is given time to show. Raises
        CaseFailed; DeviceFault.
        """
        time_us = self._run(index, deadline, order, descriptors)
        self._freeze()
        if index + 1 < len(self._declared):
            self._core_keep_awake.wake()
        before_us, after_us = self._cpu_before_us, self.team.cpu_us()
        self.idle_us = 0.0
        if before_us is not None and after_us is not None:
            self.idle_us = max(0.0, time_us - (after_us - before_us))
        self._require_stillness(is_watched=is_watched)
        return time_us

    def judge(self, index: int) -> None:
        """Judge the answer of a call. Raises CaseFailed, ProblemFault."""
        self._select(index)
        self._judge_all()

    def run(
        self,
        seed: int,
        deadline: float,
        order: bytes = protocol.GO,
        descriptors: Sequence[int] = (),
    ) -> float:
        """Make one call without judging it, for example under a profiler."""
        self.draw([seed])
        return self._run(0, deadline, order, descriptors)

    def _run(self, index: int, deadline: float, order: bytes, descriptors: Sequence[int]) -> float:
        self._select(index)
        self._fill_outputs()
        self._set_limit(deadline)
        return self._time(order, descriptors)

    def warm_up(self, seed: int, budget_s: float) -> None:
        """Make one call that is neither timed nor judged; the submission may compile.

        Raises the same errors as `call`, except for a wrong answer, which is discarded.
        """
        self.draw([seed])
        self._fill_outputs()
        name = f"the warm-up for {describe_shapes(self.shapes[0])}"
        with self.team.preparation.part(name, budget_s, self.team) as part:
            self._part = part
            try:
                self._reveal(self._device.run_untimed, protocol.GO, ())
            finally:
                self._part = None
        self._freeze()

    def _select(self, index: int) -> None:
        self._call_index = index
        for buffers in self._buffers:
            buffers.select(index)

    def _fill_outputs(self) -> None:
        """Fill the outputs with noise, so that none are right by chance; the workers are frozen."""
        if self._defences.poisons:
            for buffers in self._buffers:
                buffers.renew_noise()

    def _time(self, order: bytes, descriptors: Sequence[int]) -> float:
        """Reveal the input to a timed call, during which the referee should not wait."""
        referee = self._referee

        def run(window: Window) -> float:
            with referee:
                time_us = self._device.timed(window)
                self.referee_waited_us = referee.waited_us() - self._referee_waited_before_us
            return time_us

        return self._reveal(run, order, descriptors)

    def _reveal(
        self, run: Callable[[Window], Result], order: bytes, descriptors: Sequence[int]
    ) -> Result:
        self._descriptors = descriptors
        self._order(order)
        self._cpu_before_us = self.team.cpu_us()
        if self._defences.requires_silence:
            self.team.require_silence()
        self._core_keep_awake.wake()
        try:
            return run(self)
        except RuleViolation as violation:
            raise CaseFailed(violation.verdict, str(violation)) from violation

    @property
    def rank_buffers(self) -> Sequence[RankBuffers]:
        """The buffers of each rank."""
        return self._buffers

    @property
    def memories(self) -> list[tuple[Memory, Memory]]:
        """The inputs and outputs of each rank."""
        return [buffers.memories for buffers in self._buffers]

    def show(self) -> None:
        """Copy the private inputs to where the workers see them."""
        for buffers in self._buffers:
            buffers.show()
        self._waited_before_us = self.team.waited_us()
        self._referee_waited_before_us = self._referee.waited_us()

    def go(self) -> None:
        """Thaw the workers, send each the nonce of this call, and leave the core to them."""
        self.team.thaw()
        for rank, message in enumerate(self._messages):
            self.team.send(rank, message, self._descriptors)
        self._core_keep_awake.release()

    def armed(self, within_s: float) -> bool:
        """Wait until every worker has enqueued its work, then freeze them; False if one is late."""
        ends_at = time.monotonic() + within_s
        for rank in range(len(self._messages)):
            answer = self.team.try_receive(rank, ends_at)
            if answer is None:
                return False
            if answer != protocol.ARMED + self.nonce:
                raise CaseFailed("protocol", "the worker sent an unexpected answer")
        self._freeze()
        self._is_armed = True
        return True

    def wait(self) -> None:
        """Wait for every worker's answer. Raises CaseFailed."""
        done_message, armed = protocol.DONE + self.nonce, protocol.ARMED + self.nonce
        if self._is_armed:
            self.team.thaw()
        for rank in range(len(self._messages)):
            answer = self._receive(rank)
            # On a GPU, a worker that was too late to be armed still sends ARMED first.
            if answer == armed and self._device.name != "cpu" and not self._is_armed:
                answer = self._receive(rank)
            declaration = answer[len(done_message) :]
            self._declared[self._call_index][rank] = declaration
            is_undeclarable = declaration and not self.shapes[rank].is_checked
            if answer[: len(done_message)] != done_message or is_undeclarable:
                raise CaseFailed("protocol", "the worker sent an unexpected answer")
        self._has_answered = True

    def _receive(self, rank: int) -> bytes:
        if self._part is not None:
            return self.team.receive_prepared(rank, self._part)
        return self.team.receive(rank, self._ends_at, self._limit_reason)

    def hold(self) -> None:
        """Copy the outputs; the clock stops after this, never before.

        Before a long copy the workers are frozen: otherwise one could answer early and keep writing
        just ahead of the copy. A short copy takes less time than freezing. Behind a gate the copy
        is enqueued before the workers have answered, when some may not even have seen their input.
        """
        if not self._defences.stops_after_snapshot:
            self._let_work_end()
        if self._is_large and self._has_answered:
            self._freeze()
        for buffers in self._buffers:
            buffers.hold()
        # Later, it would count time after the call; earlier, it would delay the copy.
        # With several ranks, one may work while another waits, so nothing can be concluded.
        if len(self._buffers) == 1:
            self.waited_us = self.team.waited_us() - self._waited_before_us

    def _data(self, seed: int, rank: int) -> Any:
        """Generate the data of a call for one rank; a batch has another seed for each set."""
        return self._author.data(self.case, seed, rank)

    def _at(self, rank: int) -> AbstractContextManager[None]:
        return on_device(self._device.of_rank(rank).place)

    def _freeze(self) -> None:
        if self._defences.freezes:
            self.team.freeze()

    def _order(self, order: bytes) -> None:
        self._is_armed = self._has_answered = False
        size = protocol.NONCE_BYTES
        self.nonce = secrets.token_bytes(size) if self._defences.has_nonce else bytes(size)
        self._messages = [order + self.nonce + buffers.scalars() for buffers in self._buffers]

    def _set_limit(self, deadline: float) -> None:
        slowest_s = max(shape.reference_s for shape in self.shapes)
        call_s = max(CALL_S_MIN, CALL_REFERENCES_MAX * slowest_s)
        self._ends_at = time.monotonic() + call_s
        self._limit_reason = f"one call took more than {call_s:.0f} s"
        if self._ends_at > deadline:
            self._ends_at, self._limit_reason = deadline, "the stage used up its budget"

    def _judge_all(self) -> None:
        """Judge every rank; compute all reference answers first if ranks communicate."""
        count = len(self._buffers)
        try:
            self._author.each(self.case, count, self._judge)
        except ReferenceAnswerNeeded:

            def expected(rank: int) -> list[Any]:
                buffers = self._buffers[rank]
                with self._at(rank):
                    return compute_expected(self._author, self.case, buffers, buffers.flat)

            answers = self._author.each(self.case, count, expected)
            self._author.each(self.case, count, lambda rank: self._judge(rank, answers[rank]))

    def _judge(self, rank: int, known: Sequence[Any] | None = None) -> None:
        buffers = self._buffers[rank]
        declaration = self._declared[self._call_index][rank]
        try:
            with self._at(rank):
                judge_answer(self._judge_context, self.case, buffers, declaration, known)
        except CaseFailed as failure:
            if len(self._buffers) > 1:
                failure.message = make_printable(f"rank {rank}: {failure.message}")
            raise

    def _require_stillness(self, *, is_watched: bool) -> None:
        """Check that the outputs no longer change; if watched, give a late write time to show."""
        if is_watched:
            self.team.thaw()
            time.sleep(_IDLE_S)
            self._freeze()
        if self._defences.requires_stillness and not all(
            buffers.is_still() for buffers in self._buffers
        ):
            raise CaseFailed("late_write", "the output changed after the call had returned")

    def _let_work_end(self) -> None:
        """Let the workers finish what they go on doing after they have answered.

        For tests without the defence: a clock that stops at the answer grants this time. A core may
        stand still for a moment, so the work is over when no worker wants a core, or when they have
        had one for long enough: a null worker never stops looking for its next call.
        """
        ends_at, before_us = time.monotonic() + _LATE_S_MAX, self.team.cpu_us()
        while linux.is_any_running(os.getppid(), but=os.getpid()):
            cpu_us = self.team.cpu_us()
            if before_us is not None and cpu_us is not None and cpu_us > before_us + _LATE_CPU_US:
                break
            if time.monotonic() > ends_at:
                break
            time.sleep(_LOOK_S)


class WarmUps:
    """Makes a team's first call for every new shape, so that no judged call has to compile.

    `seeds` are used for warm-up calls alone: a submission learns nothing about a judged input.
    `budget_s` bounds each call, the budget of the team's preparation all of them together.
    """

    def __init__(self, seeds: Callable[[Case], Iterator[int]], budget_s: float) -> None:
        self._seeds_of_case = seeds
        self._budget_s = budget_s
        self._seeds: dict[str, Iterator[int]] = {}
        self._shapes_of_team: defaultdict[Team, set[tuple[bytes, ...]]] = defaultdict(set)

    def warm_up(self, gate: GatedCase, budget: StageBudget) -> None:
        """Make the call if the gate's team has not been called with these shapes yet.

        It costs nothing of the budget. Raises CaseFailed, ProblemFault, DeviceFault.
        """
        shapes = tuple(shape.specialisation() for shape in gate.shapes)
        known_shapes = self._shapes_of_team[gate.team]
        if shapes in known_shapes:
            return
        known_shapes.add(shapes)
        name = gate.case.name
        if name not in self._seeds:
            # They continue from team to team.
            self._seeds[name] = self._seeds_of_case(gate.case)
        began = time.monotonic()
        gate.warm_up(next(self._seeds[name]), self._budget_s)
        budget.extend(time.monotonic() - began)


def probe_shapes(
    judge_context: JudgeContext, cases: Iterable[Case], key: bytes, *, is_checked: bool
) -> dict[str, list[Shape]]:
    """Return for each case, by name, the shape of every rank. Raises ProblemFault."""
    shapes_by_case: dict[str, list[Shape]] = {}

    def probe_rank(case: Case, rank: int) -> Shape:
        place = judge_context.device.of_rank(rank).place
        with on_device(place):
            shape = probe_shape(judge_context.author, case, key, rank, place)
        return replace(shape, is_checked=is_checked)

    for case in cases:
        if case.name not in shapes_by_case:
            probe = functools.partial(probe_rank, case)
            shapes_by_case[case.name] = judge_context.author.each(case, case.ranks, probe)
    return shapes_by_case
