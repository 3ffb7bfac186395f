"""Values of a run that its events share with the HTTP API and the cli."""

from typing import Annotated

import msgspec
from msgspec import Meta


class RunValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A value of a run, in events as in responses."""


class Mismatch(RunValue, frozen=True, kw_only=True):
    """One wrong element of a public case, as text."""

    index: str
    got: str
    expected: str


class StageResult(RunValue, frozen=True, kw_only=True):
    """How a stage of a run ended, and how many cases it had."""

    stage: str
    verdict: str
    took_s: Annotated[float, Meta(description="Seconds.")]
    cases: int


class Composition(RunValue, frozen=True, kw_only=True):
    """What produced the answer, as the submission's own process recorded it in an extra call."""

    shares: Annotated[
        dict[str, float],
        Meta(
            description="Shares of the time: `own_kernels` on a GPU or `own_code` on a processor, "
            "`torch`, `overhead` (of calling torch), `cublas`, `cudnn`, `cutlass`, `copies`."
        ),
    ] = {}
    operators: Annotated[
        list[str], Meta(description="The torch operators that ran, the slowest first.")
    ] = []
    doubts: Annotated[
        list[str], Meta(description="Why a moderator reviews it under the problem's policy.")
    ] = []


class DuelResult(RunValue, frozen=True, kw_only=True):
    """The result of a duel: `winner` is A, the source, B, its rival, or `equal`.

    It is "" if the side `failed` did not pass. `ratio` is the time of A divided by that of B, with
    its 95 % interval, from `pairs` pairs of blocks.
    """

    winner: str
    failed: str = ""
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    pairs: int = 0
