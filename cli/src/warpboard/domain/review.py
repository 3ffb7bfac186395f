"""What operators look at: rejudges, rulings, events that were given up, and what is held back."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from warpboard.domain.answers import Agent
from warpboard.domain.oversight import (
    Change,
    DeadLetter,
    Parked,
    Pool,
    Preview,
    Rejudge,
    Ruling,
    Side,
)
from warpboard.domain.tables import Table, held_back
from warpboard.domain.units import NOTHING, count_text, one_line, time_text, when


def rejudges(found: Sequence[Rejudge], zone: tzinfo | None = None) -> Table:
    """Rejudges, newest first."""
    rows = [
        (
            one.id,
            one.problem,
            f"{one.from_number} to {one.to_number}",
            f"{one.judged} of {one.count}",
            one.state,
            NOTHING if one.changed_count is None else str(one.changed_count),
            one.actor,
            when(one.requested_at, zone),
            one_line(one.reason, 60),
        )
        for one in found
    ]
    columns = ("rejudge", "problem", "versions", "judged", "state", "changed", "actor", "when")
    return Table("rejudges", (*columns, "reason"), rows)


def rejudge_lines(found: Rejudge) -> Iterator[str]:
    """One rejudge without its preview, and what to do next."""
    versions = f"from version {found.from_number} to {found.to_number}"
    yield f"rejudge {found.id}: {found.problem} {versions}, {found.select}"
    yield f"asked by {found.actor}: {one_line(found.reason)}"
    counted = f"{found.judged} of {count_text(found.count, 'submission')} judged"
    yield f"state {found.state}: {counted}"
    if found.end_actor:
        yield f"ended by {found.end_actor}: {one_line(found.end_reason or NOTHING)}"
    if found.state == "previewed":
        yield f"nothing counts yet: warpboard problem rejudge apply {found.id}, or discard"


def preview(found: Preview) -> Table:
    """What a rejudge changes, submission by submission, those that change first."""
    items = sorted(found.items, key=lambda one: (not one.changed, one.gpu, one.number))
    columns = ("number", "GPU type", "verdict", "eligible", "score", "place", "")
    return Table(
        f"preview: {found.changed_count} of {count_text(len(items), 'submission')} change",
        columns,
        [_change(one) for one in items],
    )


def _change(one: Change) -> tuple[str, ...]:
    old, new = _side(one.old), _side(one.new)
    pairs = (
        before if before == after else f"{before} → {after}"
        for before, after in zip(old, new, strict=True)
    )
    return (str(one.number), one.gpu, *pairs, "changes" if one.changed else "")


def _side(side: Side) -> tuple[str, ...]:
    eligible = {True: "yes", False: f"no ({side.code})", None: NOTHING}[side.is_eligible]
    rank = NOTHING if side.rank is None else str(side.rank)
    return (side.verdict or NOTHING, eligible, time_text(side.score_us), rank)


def moves(found: Preview) -> Table:
    """Who would stand elsewhere."""
    rows = [
        (one.gpu, one.account, f"{one.old_rank or NOTHING} → {one.new_rank or NOTHING}")
        for one in found.moves
    ]
    return Table("moves", ("GPU type", "account", "place"), rows)


def rulings(found: Sequence[Ruling], zone: tzinfo | None = None) -> Table:
    """What was decided about submissions, or waits for a decision."""
    rows = [
        (
            str(one.number),
            one.participant or NOTHING,
            f"{one.problem} on {one.gpu}",
            _ruling(one),
            one_line(one.rule or NOTHING, 40),
            one_line(one.reason or NOTHING, 60),
            one.actor or NOTHING,
            one.appeal or NOTHING,
            when(one.decided_at, zone),
        )
        for one in found
    ]
    columns = ("number", "participant", "leaderboard", "is", "rule", "reason", "actor", "appeal")
    return Table("rulings", (*columns, "when"), rows)


def _ruling(one: Ruling) -> str:
    if one.is_disqualified:
        return "disqualified"
    if one.is_held:
        return "held"
    return "held by rule" if one.is_held_by_rule and one.decided_at is None else "free"


def dead_letters(found: Sequence[DeadLetter], zone: tzinfo | None = None) -> Table:
    """Events that consumers gave up."""
    rows = [
        (one.consumer, str(one.seq), str(one.deliveries), when(one.at, zone), one_line(one.reason))
        for one in found
    ]
    return Table("dead letters", ("consumer", "seq", "deliveries", "when", "reason"), rows)


def dead_letter_lines(one: DeadLetter, zone: tzinfo | None = None) -> Iterator[str]:
    """One event that a consumer gave up, and how to hand it out again."""
    yield f"{one.consumer} gave up event {one.seq} of {one.stream} at {when(one.at, zone)}"
    yield f"handed out {count_text(one.deliveries, 'time')}: {one_line(one.reason, 2000)}"
    yield f"once mended: warpboard deadletters redrive {one.consumer} {one.seq} --reason TEXT"


def held(
    intake: str | None, pools: Sequence[Pool], agents: Sequence[Agent], parked: Parked | None
) -> Iterator[str]:
    """Everything that operators or the platform itself hold back, a sentence each."""
    if intake is not None:
        yield f"intake is paused: {one_line(intake)}"
    for pool in pools:
        if pool.paused is not None:
            yield f"pool {pool.gpu} is paused: {one_line(pool.paused)}"
    for agent in agents:
        if why := held_back(agent):
            yield f"agent {agent.id} is {why}"
    if parked is not None:
        yield f"the read models stand before event {parked.seq}: {one_line(parked.error)}"
