"""What operators look at and begin: rulings, rejudges, events that were given up."""

from shared.errors import Refused
from warpboard.domain import review
from warpboard.domain.answers import Answer, read
from warpboard.domain.outcome import OK
from warpboard.domain.oversight import (
    DeadLetters,
    Rejudge,
    Rejudges,
    Rulings,
    Started,
)
from warpboard.service.ports import Api, Screen
from warpboard.service.reading import show


async def moderation(api: Api, screen: Screen, *, is_all: bool, as_json: bool) -> int:
    """What waits for a decision, or all that was ever decided."""
    answer = await api.get("moderation", open=str(not is_all).lower())
    return show(screen, answer, review.rulings(read(answer, Rulings).items), as_json=as_json)


async def start(api: Api, screen: Screen, said: Answer, *, as_json: bool) -> int:
    """Let submissions run again; nothing counts until it is applied. Errors: Refused; Failed."""
    answer = await api.act("POST", "admin", "rejudges", said=said)
    if as_json:
        screen.json(answer)
        return OK
    say_started(screen, answer)
    return OK


def say_started(screen: Screen, answer: Answer) -> None:
    """Say what a rejudge runs again, and how to see what it would change."""
    found = read(answer, Started)
    screen.say(
        f"rejudge {found.id}: {found.count} to run again under version {found.to_version} "
        f"(they ran under {found.from_version})"
    )
    screen.say(f"see what it would change: warpboard problem rejudge show {found.id}")


async def rejudges(api: Api, screen: Screen, *, as_json: bool) -> int:
    """Every rejudge, newest first."""
    answer = await api.get("rejudges")
    return show(screen, answer, review.rejudges(read(answer, Rejudges).items), as_json=as_json)


async def rejudge(api: Api, screen: Screen, id_: str, *, as_json: bool) -> int:
    """One rejudge, with what it would change once that is known."""
    answer = await api.get("rejudges", id_)
    if as_json:
        screen.json(answer)
        return OK
    found = read(answer, Rejudge)
    if found.preview is not None:
        screen.table(review.preview(found.preview))
        if found.preview.moves:
            screen.table(review.moves(found.preview))
    for line in review.rejudge_lines(found):
        screen.say(line)
    return OK


async def dead_letters(api: Api, screen: Screen, *, as_json: bool) -> int:
    """Every event that a consumer gave up."""
    answer = await api.get("admin", "deadletters")
    found = read(answer, DeadLetters).items
    return show(screen, answer, review.dead_letters(found), as_json=as_json)


async def dead_letter(api: Api, screen: Screen, consumer: str, seq: int, *, as_json: bool) -> int:
    """One event that a consumer gave up. Errors: Refused if it did not."""
    answer = await api.get("admin", "deadletters")
    for said, one in zip(answer["items"], read(answer, DeadLetters).items, strict=True):
        if (one.consumer, one.seq) == (consumer, seq):
            if as_json:
                screen.json(said)
            for line in () if as_json else review.dead_letter_lines(one):
                screen.say(line)
            return OK
    what = f"{consumer} has no dead letter {seq}: warpboard deadletters list"
    raise Refused("unknown_dead_letter", what)
