"""What the announcer needs of Discord and of its own tables."""

from typing import NamedTuple, Protocol

from discord_edge.domain.news import Facts


class Moved(NamedTuple):
    """A leaderboard whose podium is not as it was told, as of an event."""

    problem: str
    gpu: str
    seq: int
    is_record: bool


class Told(NamedTuple):
    """The post of a problem, and what it says."""

    thread: str
    facts: Facts


class Town(Protocol):
    """The places on Discord that everybody sees.

    Errors of each: Failed for what may go better later, Refused for what never will.
    """

    async def say(self, text: str, nonce: str, sign: str) -> str:
        """A line for everybody, once for a nonce and for a sign at its end. Its id."""
        ...

    async def begin(self, message: str, name: str) -> str:
        """The thread that begins at a line. Its id."""
        ...

    async def tell(self, thread: str, text: str, nonce: str) -> str:
        """A message in a thread or post, once for a nonce. Its id."""
        ...

    async def open(self, name: str, text: str) -> str:
        """The post with a name, a new one if there is none. Its id."""
        ...

    async def change(self, thread: str, text: str) -> None:
        """Another text for the first message of a post."""
        ...


class Ledger(Protocol):
    """What was made and told. Errors of each: Failed."""

    async def made(self, name: str) -> str | None:
        """The id of what was made under a name."""
        ...

    async def keep(self, name: str, identity: str) -> None:
        """Keep the id of what was made under a name."""
        ...

    async def expect(self, submission: str, problem: str, gpu: str) -> None:
        """A ranked submission is on its way to a leaderboard."""
        ...

    async def expected(self, submission: str) -> tuple[str, str] | None:
        """To which problem and GPU type it was; None if nobody said."""
        ...

    async def board(self, problem: str) -> Told | None:
        """The post of a problem."""
        ...

    async def set_board(self, problem: str, told: Told) -> None:
        """Keep the post of a problem."""
        ...

    async def boards(self) -> dict[str, Facts]:
        """What the posts say."""
        ...

    async def moved(self, moved: Moved) -> None:
        """A podium changed."""
        ...

    async def due(self, every_s: float, quiet_s: float) -> list[Moved]:
        """Podiums that are to be told of now."""
        ...

    async def told(self, moved: Moved) -> None:
        """A podium was told of."""
        ...
