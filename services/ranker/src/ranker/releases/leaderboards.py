"""Derives leaderboards from the tables of a release alone, at any event up to the release."""

from collections.abc import Iterable, Mapping
from typing import Any

from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import ReceivedSubmission, Standings, StandingsFact
from shared import events

Row = Mapping[str, Any]
# The tables that the leaderboards follow from.
USED_TABLES = ("submissions", "verdicts", "labels", "duels")
# A short text in the place of a reason, which no release has.
REASON = ""


def derive_standings(tables: Mapping[str, Iterable[Row]], seq: int) -> Standings:
    """Return all leaderboards after an event, without what was withdrawn since.

    Participants have their pseudonyms, and equal sources their group. `tables` are USED_TABLES.
    """
    standings = Standings()
    fold_tables(standings, tables, seq)
    return standings


def fold_tables(standings: Standings, tables: Mapping[str, Iterable[Row]], seq: int) -> None:
    """Fold the rows of USED_TABLES up to an event; a table that is not there has none."""
    for row in tables.get("submissions", ()):
        if row["number"] <= seq:
            board = LeaderboardKey(row["problem"], row["gpu"], row["version"])
            standings.received[str(row["number"])] = ReceivedSubmission(
                row["number"], row["participant"], board, row["source_group"], row["at"]
            )
    steps = [
        (row["seq"], row.get("place") or 0, table, row)
        for table in ("verdicts", "labels", "duels")
        for row in tables.get(table, ())
        if row["seq"] <= seq
    ]
    for _, _, table, row in sorted(steps, key=lambda step: step[:2]):
        {"verdicts": _apply_verdict, "labels": _apply_label, "duels": _apply_duel}[table](
            standings, row
        )


def moves_leaderboards(label: Row) -> bool:
    """Whether a leaderboard depends on a label."""
    return _make_fact(label) is not None


def _apply_verdict(standings: Standings, row: Row) -> None:
    id_ = str(row["submission"])
    run = None if row["run"] is None else str(row["run"])
    if row["kind"] == "restated":
        score = events.RestatedScore(
            submission=id_,
            run=run or "",
            score_us=row["score_us"],
            yardstick_us=row["yardstick_us"],
            interval_us=(row["low_us"], row["high_us"]),
            process_us=list(row["process_us"]),
            error=row["error"],
            freedom=row["freedom"],
            delta=row["delta"],
        )
        fixed = events.YardstickFixed(
            problem=row["problem"],
            problem_number=row["version"],
            problem_digest="",
            gpu=row["gpu"],
            times_us={},
            runs=[],
            restated=[score],
        )
        standings.apply(id_, fixed)
        return
    end = events.SubmissionFinished(
        outcome=row["outcome"],
        is_eligible=row["is_eligible"],
        code=row["code"],
        reason=REASON,
        run=run,
        verdict=row["verdict"],
        score_us=row["score_us"],
        process_us=list(row["process_us"]),
        error=row["error"],
        freedom=row["freedom"],
        sigma_run=row["sigma_run"],
        delta=row["delta"],
        grade=row["grade"] or "",
    )
    if row["kind"] == "rejudged":
        board = LeaderboardKey(row["problem"], row["gpu"], row["version"])
        standings.add_result(id_, board, end)
    else:
        standings.apply(id_, end)


def _make_fact(row: Row) -> StandingsFact | None:
    """The fact of a label; None if it moves no leaderboard."""
    into, until_at = row["value"] or "", row["until_at"]
    facts: dict[str, StandingsFact] = {
        "held": events.SubmissionHeld(reason=REASON, rule=""),
        "released": events.SubmissionReleased(reason=REASON),
        "disqualified": events.SubmissionDisqualified(reason=REASON, rule=""),
        "restored": events.SubmissionRestored(reason=REASON),
        "appeal_accepted": events.AppealDecided(reason=REASON, is_accepted=True),
        "banned": events.AccountBanned(reason=REASON, until_at=until_at),
        "unbanned": events.AccountUnbanned(reason=REASON),
        "merged": events.AccountMerged(into=into, undo_until_at=row["at"]),
        "separated": events.MergeUndone(into=into),
    }
    return facts.get(row["label"])


def _apply_label(standings: Standings, row: Row) -> None:
    fact = _make_fact(row)
    if fact is not None:
        submission = row["submission"]
        standings.apply(row["participant"] if submission is None else str(submission), fact)


def _apply_duel(standings: Standings, row: Row) -> None:
    first, second = (
        events.DuelSide(
            submission="",
            number=0,
            account="",
            source=events.Blob(digest=row[name], bytes=0),
            name="",
        )
        for name in ("first_source", "second_source")
    )
    requested = events.DuelRequested(
        problem=row["problem"],
        problem_number=row["version"],
        problem_digest="",
        gpu=row["gpu"],
        first=first,
        second=second,
        reason=REASON,
    )
    result = events.DuelResult(
        winner=row["winner"], ratio=row["ratio"], interval=(row["low"], row["high"])
    )
    id_ = str(row["seq"])
    standings.apply(id_, requested)
    judged = events.DuelJudged(
        problem=row["problem"], problem_number=row["version"], gpu=row["gpu"], result=result
    )
    standings.apply(id_, judged)
