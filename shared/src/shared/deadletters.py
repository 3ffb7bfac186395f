"""The port to dead letters: events that a durable consumer gave up, and their second chance."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple, Protocol

from shared import subjects
from shared.event_log import New, Recorded
from shared.events import DeadLetterRedriven
from shared.ids import derived
from shared.wire import Stamp, seal

TOO_OFTEN = "it was handed over too often"


class DeadLetter(NamedTuple):
    """An event, by its sequence, that a consumer gave up.

    `place` is the sequence of what was handed over: the event's own, or that of its last redrive.
    """

    consumer: str
    stream: str
    seq: int
    reason: str
    at: datetime
    deliveries: int
    place: int


class DeadLetters(Protocol):
    """What consumers of the log gave up."""

    async def list(self) -> list[DeadLetter]:
        """The dead letters that nobody has redriven since, oldest first; of 90 days at most."""
        ...


def redriven(letter: DeadLetter, reason: str, actor: str, at: datetime) -> New:
    """The event whose append redrives: the consumer is handed the dead letter's event once more.

    The same letter always gives the same id, so that it is redriven once.
    """
    fact = DeadLetterRedriven(consumer=letter.consumer, seq=letter.seq, reason=reason)
    cause = f"{letter.consumer}/{letter.place}"
    stamp = Stamp(derived(cause, "DeadLetterRedriven"), at, actor, letter.consumer, cause)
    return New(seal(fact, subjects.redriven(letter.consumer), stamp), None)


def still_dead(letters: Iterable[DeadLetter], redrives: Iterable[Recorded]) -> list[DeadLetter]:
    """The newest letter of each event that was not redriven since, oldest first.

    A consumer gives a redrive up as it gives up any event: the letter means the event it named.
    """
    named: dict[int, tuple[str, int]] = {}
    newest: dict[tuple[str, int], int] = {}
    for redrive in redrives:
        fact = redrive.fact
        assert isinstance(fact, DeadLetterRedriven), "redrives lie alone on their aggregate"
        named[redrive.seq] = what = (fact.consumer, fact.seq)
        newest[what] = max(newest.get(what, 0), redrive.seq)
    dead: dict[tuple[str, int], DeadLetter] = {}
    for letter in letters:
        what = named.get(letter.place, (letter.consumer, letter.place))
        if newest.get(what, 0) <= letter.place:
            dead.pop(what, None)
            dead[what] = letter._replace(seq=what[1])
    return list(dead.values())
