"""Rulings, rejudges and dead letters, for operators."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo

from shared.api.moderation import (
    Decision,
    FullRejudge,
    Item,
    ItemSide,
    Moderation,
    Preview,
    Rejudge,
    Rejudges,
    RequestedRejudge,
)
from shared.api.platform import DeadLetter, DeadLetters
from shared.errors import Refused
from shared.presentation.units import NO_VALUE, count_text, instant_text, one_line, time_text
from warpboard.domain.exit_codes import OK
from warpboard.domain.tables import Table
from warpboard.service.answers import show_answer
from warpboard.service.ports import Api, Screen


async def list_rulings(api: Api, screen: Screen, *, is_all: bool, as_json: bool) -> int:
    """List open decisions, or all decisions."""
    answer = await api.get(Moderation, "moderation", open=str(not is_all).lower())
    return show_answer(screen, answer, ruling_table(answer.value.items), as_json=as_json)


async def start_rejudge(
    api: Api, screen: Screen, body: Mapping[str, object], *, as_json: bool
) -> int:
    """Start a rejudge; nothing counts until it is applied. Raises Refused and Failed."""
    answer = await api.act(RequestedRejudge, "POST", "admin", "rejudges", body=body)
    if as_json:
        screen.json(answer.document)
        return OK
    say_started(screen, answer.value)
    return OK


def say_started(screen: Screen, rejudge: RequestedRejudge) -> None:
    """Print what a rejudge runs again, and how to see what it would change."""
    screen.say(
        f"rejudge {rejudge.id}: {rejudge.count} to run again under version {rejudge.to_version} "
        f"(they ran under {rejudge.from_version})"
    )
    screen.say(f"see what it would change: warpboard problem rejudge show {rejudge.id}")


async def list_rejudges(api: Api, screen: Screen, *, as_json: bool) -> int:
    """List the rejudges, newest first."""
    answer = await api.get(Rejudges, "rejudges")
    return show_answer(
        screen,
        answer,
        rejudge_table(answer.value.items),
        as_json=as_json,
    )


async def show_rejudge(api: Api, screen: Screen, id_: str, *, as_json: bool) -> int:
    """Show a rejudge, and what it would change once that is known."""
    answer = await api.get(FullRejudge, "rejudges", id_)
    if as_json:
        screen.json(answer.document)
        return OK
    rejudge = answer.value
    if rejudge.preview is not None:
        screen.table(preview_table(rejudge.preview))
        if rejudge.preview.moves:
            screen.table(rank_change_table(rejudge.preview))
    for line in rejudge_lines(rejudge):
        screen.say(line)
    return OK


async def list_dead_letters(api: Api, screen: Screen, *, as_json: bool) -> int:
    """List every event that a consumer gave up."""
    answer = await api.get(DeadLetters, "admin", "deadletters")
    letters = answer.value.items
    return show_answer(screen, answer, dead_letter_table(letters), as_json=as_json)


async def show_dead_letter(
    api: Api, screen: Screen, consumer: str, seq: int, *, as_json: bool
) -> int:
    """Show a dead letter. Raises Refused if there is none."""
    answer = await api.get(DeadLetters, "admin", "deadletters")
    for document, letter in zip(answer.document["items"], answer.value.items, strict=True):
        if (letter.consumer, letter.seq) == (consumer, seq):
            if as_json:
                screen.json(document)
            for line in () if as_json else dead_letter_lines(letter):
                screen.say(line)
            return OK
    reason = f"{consumer} has no dead letter {seq}: warpboard admin deadletter list"
    raise Refused("unknown_dead_letter", reason)


def rejudge_table(rejudges: Sequence[Rejudge], zone: tzinfo | None = None) -> Table:
    """List rejudges, newest first."""
    rows = [
        (
            rejudge.id,
            rejudge.problem,
            f"{rejudge.from_version} to {rejudge.to_version}",
            f"{rejudge.judged} of {rejudge.count}",
            rejudge.state,
            NO_VALUE if rejudge.changed_count is None else str(rejudge.changed_count),
            rejudge.actor,
            instant_text(rejudge.requested_at, zone),
            one_line(rejudge.reason, 60),
        )
        for rejudge in rejudges
    ]
    columns = ("rejudge", "problem", "versions", "judged", "state", "changed", "actor", "when")
    return Table("rejudges", (*columns, "reason"), rows)


def rejudge_lines(rejudge: Rejudge) -> Iterator[str]:
    """Describe a rejudge without its preview, and what to do next."""
    versions = f"from version {rejudge.from_version} to {rejudge.to_version}"
    yield f"rejudge {rejudge.id}: {rejudge.problem} {versions}, {rejudge.select}"
    yield f"asked by {rejudge.actor}: {one_line(rejudge.reason)}"
    progress = f"{rejudge.judged} of {count_text(rejudge.count, 'submission')} judged"
    yield f"state {rejudge.state}: {progress}"
    if rejudge.end_actor:
        yield f"ended by {rejudge.end_actor}: {one_line(rejudge.end_reason or NO_VALUE)}"
    if rejudge.state == "previewed":
        yield f"nothing counts yet: warpboard problem rejudge apply {rejudge.id}, or discard"


def preview_table(preview: Preview) -> Table:
    """List what a rejudge changes, by submission, changed ones first."""
    items = sorted(preview.items, key=lambda item: (not item.changed, item.gpu, item.number))
    columns = ("number", "GPU type", "verdict", "eligible", "score", "place", "")
    return Table(
        f"preview: {preview.changed_count} of {count_text(len(items), 'submission')} change",
        columns,
        [_change_cells(change) for change in items],
    )


def _change_cells(change: Item) -> tuple[str, ...]:
    old, new = _result_cells(change.old), _result_cells(change.new)
    pairs = (
        before if before == after else f"{before} → {after}"
        for before, after in zip(old, new, strict=True)
    )
    return (str(change.number), change.gpu, *pairs, "changes" if change.changed else "")


def _result_cells(side: ItemSide) -> tuple[str, ...]:
    eligible = {True: "yes", False: f"no ({side.code})", None: NO_VALUE}[side.is_eligible]
    rank = NO_VALUE if side.rank is None else str(side.rank)
    return (side.verdict or NO_VALUE, eligible, time_text(side.score_us), rank)


def rank_change_table(preview: Preview) -> Table:
    """List the participants whose rank changes."""
    rows = [
        (
            move.gpu,
            move.participant_id,
            f"{move.old_rank or NO_VALUE} → {move.new_rank or NO_VALUE}",
        )
        for move in preview.moves
    ]
    return Table("moves", ("GPU type", "account", "place"), rows)


def ruling_table(rulings: Sequence[Decision], zone: tzinfo | None = None) -> Table:
    """List decisions about submissions, and submissions that wait for one."""
    rows = [
        (
            str(ruling.number),
            ruling.participant or NO_VALUE,
            f"{ruling.problem} on {ruling.gpu}",
            _ruling_state(ruling),
            one_line(ruling.rule or NO_VALUE, 40),
            one_line(ruling.reason or NO_VALUE, 60),
            ruling.actor or NO_VALUE,
            ruling.appeal or NO_VALUE,
            instant_text(ruling.decided_at, zone),
        )
        for ruling in rulings
    ]
    columns = ("number", "participant", "leaderboard", "is", "rule", "reason", "actor", "appeal")
    return Table("rulings", (*columns, "when"), rows)


def _ruling_state(ruling: Decision) -> str:
    if ruling.is_disqualified:
        return "disqualified"
    if ruling.is_held:
        return "held"
    return "held by rule" if ruling.is_held_by_rule and ruling.decided_at is None else "free"


def dead_letter_table(letters: Sequence[DeadLetter], zone: tzinfo | None = None) -> Table:
    """List events that consumers gave up."""
    rows = [
        (
            letter.consumer,
            str(letter.seq),
            str(letter.deliveries),
            instant_text(letter.at, zone),
            one_line(letter.reason),
        )
        for letter in letters
    ]
    return Table("dead letters", ("consumer", "seq", "deliveries", "when", "reason"), rows)


def dead_letter_lines(letter: DeadLetter, zone: tzinfo | None = None) -> Iterator[str]:
    """Describe one dead letter, and how to redrive it."""
    event = f"event {letter.seq} of {letter.stream}"
    yield f"{letter.consumer} gave up {event} at {instant_text(letter.at, zone)}"
    yield f"handed out {count_text(letter.deliveries, 'time')}: {one_line(letter.reason, 2000)}"
    redrive = f"warpboard admin deadletter redrive {letter.consumer} {letter.seq}"
    yield f"once fixed: {redrive} --reason TEXT"
