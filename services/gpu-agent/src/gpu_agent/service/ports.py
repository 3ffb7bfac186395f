"""What an agent needs of others: somewhere to run jobs, and somebody who watches."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from gpu_agent.domain import News, Outcome
from shared.events import Fact, JobAssigned


class Files(Protocol):
    """What a run left behind."""

    @property
    def log(self) -> bytes:
        """All that the submission printed, as far as it was kept."""
        ...

    @property
    def samples(self) -> bytes:
        """Every timed call, as gzipped JSON."""
        ...

    @property
    def artefacts(self) -> list[tuple[str, str, bytes]]:
        """What else the run made: names, media types and bytes."""
        ...


class Runs(Protocol):
    """Where jobs are run."""

    async def run(
        self,
        order: JobAssigned,
        told: Callable[[News], Awaitable[None]],
    ) -> tuple[Outcome, Files]:
        """Run one job to its end. Errors: Missing, Failed; cancellation kills it."""
        ...

    async def health(self) -> str:
        """Why no more jobs may be run here, "" if the next may come at once."""
        ...


class Reading(Protocol):
    """How one GPU is; None for what its driver does not tell."""

    @property
    def index(self) -> str:
        """Which one it is."""
        ...

    @property
    def use_ratio(self) -> float | None:
        """How much of its time it is used."""
        ...

    @property
    def memory_bytes(self) -> float | None:
        """How much of its memory is in use."""
        ...

    @property
    def temperature_celsius(self) -> float | None:
        """How warm it is."""
        ...

    @property
    def clock_hertz(self) -> float | None:
        """How fast its SMs are clocked."""
        ...


class Metrics(Protocol):
    """What operators watch."""

    def said(self, fact: Fact) -> None:
        """A fact of a run is in the log."""
        ...

    def lost(self) -> None:
        """A lease was over before its run had a result."""
        ...

    def looked(self, *, is_busy: bool, is_well: bool) -> None:
        """How the agent is, at each heartbeat."""
        ...
