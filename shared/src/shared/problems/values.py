"""The values of a problem version that its publication records too, with the same fields."""

from dataclasses import dataclass

import msgspec


class Requires(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent needs for a job: GPUs and memory of each, toolchains, a level of isolation.

    `sandbox_memory_mib` is the host memory it must be able to give the submission. With a `runner`
    only an agent that this launcher starts will do; the participant chooses it. An agent must be of
    this `release` or a later one, since earlier ones would ignore an option of the problem.
    """

    count: int = 1
    memory_mib: int = 0
    toolchains: list[str] = []
    level: str = ""
    sandbox_memory_mib: int = 0
    runner: str = ""
    release: str = ""


@dataclass(frozen=True, kw_only=True)
class Milestone:
    """A milestone is reached when a metric compares so with a value; "" for `gpu` is each GPU type.

    Units of `value`: seconds for `score`, none for other metrics.
    """

    id: str
    title: str
    metric: str
    op: str
    value: float
    gpu: str = ""
