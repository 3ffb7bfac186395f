"""The results of a contest, and what the reviewers of its winners look at."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import convert
from msgspec.structs import replace

from ranker.domain.contest_review import Repetition, find_winners, review_repetitions
from ranker.domain.contests import find_round
from ranker.http.access import ReaderView, ReadSources
from ranker.http.leaderboards import read_checkpoint
from ranker.service.contest_confirmations import read_agents, read_announced, read_repetitions
from ranker.service.contests import ContestStandings, StandingKey
from shared.api import contest_standings as models
from shared.clock import now
from shared.contests.definition import REVIEW_ITEMS, Contest, ReviewItem
from shared.contests.visibility import find_shown_ranks
from shared.presentation.contests import find_outdated
from shared.presentation.units import instant_text

# From the worst on: what a winner's entries are together.
STATES: tuple[models.RepetitionState, ...] = (
    "failed",
    "differs",
    "incomplete",
    "waiting",
    "confirmed",
)

Row = dict[str, Any]


@dataclass(frozen=True)
class ContestResultsReader:
    """Reads the results of contests as their readers may see them."""

    sources: ReadSources
    standings: ContestStandings

    async def read(
        self, view: ReaderView, contest: Contest, number: int
    ) -> tuple[models.ContestResults, int]:
        """The results, and the last folded event. Raises Failed."""
        at, is_organiser = now(), view.organises(contest)
        seq = await read_checkpoint(self.sources.reads)
        announced = await read_announced(view.reads, contest.slug)
        newest = max(
            (announced[stage] for stage in ("proposed", "confirmed") if stage in announced),
            key=lambda row: int(row["seq"]),
            default=None,
        )
        shows_ranks = is_organiser or find_shown_ranks(contest, at).is_live
        if not shows_ranks:
            newest = None
        finalists = [
            place["contestant"] for place in announced.get("finalists", {"places": []})["places"]
        ]
        if not shows_ranks:
            # Who was admitted is among the first, which the phase hides.
            own = await _find_contestant(view, contest.slug)
            finalists = [name for name in finalists if name == own]
        places = convert(newest["places"], list[models.ContestResult]) if newest else []
        people = await _read_contestants(
            view, contest.slug, [*finalists, *(place.contestant for place in places)]
        )
        outdated = None
        if places:
            key = StandingKey(contest.slug, number, find_round(contest, at), None)
            divisions = await self.standings.derive(contest, key)
            names = people.names | await _read_names(view, divisions, people.names)
            outdated = find_outdated(places, divisions, names)
            appeals_until_at = announced.get("proposed", {}).get("appeals_until_at")
            review = _Review(contest, at, appeals_until_at, is_organiser, people)
            places = await self._add_reviews(view, review, places, divisions)
        stage = newest["stage"] if newest else None
        body = models.ContestResults(
            contest=contest.slug,
            title=contest.title,
            state="none" if stage is None else "final" if stage == "confirmed" else "provisional",
            announced_at=newest["at"] if newest else None,
            appeals_until_at=newest["appeals_until_at"] if newest else None,
            results_as_of=newest["as_of_seq"] if newest else None,
            outdated=outdated,
            confirm_agents=contest.confirm_agents,
            prizes=contest.prizes,
            places=places,
            finalists=[
                models.ContestFinalist(contestant=name, name=people.names.get(name))
                for name in finalists
            ],
            as_of=seq,
        )
        return body, seq

    async def _add_reviews(
        self,
        view: ReaderView,
        review: "_Review",
        places: list[models.ContestResult],
        divisions: Sequence[models.DivisionStanding],
    ) -> list[models.ContestResult]:
        """Add names, and of winners the repetitions and the check lists."""
        contest = review.contest
        winners = find_winners(contest, places)
        numbers = {
            row.contestant: [entry.number for entry in row.entries]
            for part in divisions
            for row in part.rows
            if row.contestant in winners
        }
        if review.is_organiser and self.sources.index is not None:
            await self.sources.index.catch_up()
        rows, decisions, repetitions, agents = await asyncio.gather(
            view.rows("entries_to_review", numbers=[it for own in numbers.values() for it in own]),
            view.rows("contest_reviews", contest=contest.slug),
            read_repetitions(view.reads, contest.slug),
            read_agents(view.reads),
        )
        entries = {row["number"]: _make_entry(contest, row, repetitions, agents) for row in rows}
        decided = {(row["contestant"], row["item"]): row for row in decisions}
        return [
            review.complete(
                place,
                [entries[it] for it in numbers.get(place.contestant, ()) if it in entries]
                if place.contestant in winners
                else None,
                decided,
            )
            for place in places
        ]


@dataclass(frozen=True)
class _Contestants:
    """What is known of contestants, by id; `out` are those who take no part any more."""

    names: dict[str, str | None]
    declarations: Mapping[str, str]
    questions: Mapping[str, str]
    out: Collection[str]


async def _find_contestant(view: ReaderView, contest: str) -> str | None:
    """The contestant that the reader is, or is a member of; None for others."""
    account = view.reader.account
    people = await view.rows("contest_people", contest=contest)
    return next((row["team"] or account for row in people if row["account"] == account), None)


async def _read_contestants(
    view: ReaderView, contest: str, contestants: Iterable[str]
) -> _Contestants:
    people, teams, names = await asyncio.gather(
        view.rows("contest_people", contest=contest),
        view.rows("contest_teams", contest=contest),
        view.rows("participant_names", accounts=sorted(set(contestants))),
    )
    rows = [(row["account"], row) for row in people] + [(row["team"], row) for row in teams]
    return _Contestants(
        names={row["account"]: row["name"] for row in names}
        | {row["team"]: row["name"] for row in teams},
        declarations={id_: _declaration_text(row) for id_, row in rows},
        questions={id_: row["question"] for id_, row in rows if row["question"] is not None},
        out={id_ for id_, row in rows if row["is_disqualified"]},
    )


async def _read_names(
    view: ReaderView, divisions: Iterable[models.DivisionStanding], known: Mapping[str, object]
) -> dict[str, str | None]:
    """The names of people in a standing who are not in the results."""
    others = {row.contestant for part in divisions for row in part.rows} - known.keys()
    rows = await view.rows("participant_names", accounts=sorted(others))
    return {row["account"]: row["name"] for row in rows}


def _declaration_text(row: Row) -> str:
    values = msgspec.json.decode(row["declaration"], type=dict[str, str])
    return ", ".join(f"{name}={text}" for name, text in values.items()) or "nothing to declare"


def _make_entry(
    contest: Contest,
    row: Row,
    repetitions: Mapping[str, list[Repetition]],
    agents: Mapping[str, list[str]],
) -> models.ReviewedEntry:
    problem, gpu = contest.problem(row["problem"]), row["gpu"]
    review = review_repetitions(
        row["agent"] or "",
        repetitions.get(row["run"] or "", []),
        agents.get(gpu, []),
        contest.confirm_agents,
        gpu,
    )
    return models.ReviewedEntry(
        problem=row["problem"],
        number=row["number"],
        state=review.state,
        confirmation=review.text,
        is_fresh=problem is not None and problem.is_confirmed_fresh,
        copies=row["copies"],
        near_copies=convert(row["near_copies"], list[models.NearCopySource]),
    )


@dataclass(frozen=True)
class _Review:
    """Completes the places of results with what a reader may know of the review."""

    contest: Contest
    at: datetime
    appeals_until_at: datetime | None
    is_organiser: bool
    people: _Contestants

    def complete(
        self,
        place: models.ContestResult,
        entries: list[models.ReviewedEntry] | None,
        decided: Mapping[tuple[str, str], Row],
    ) -> models.ContestResult:
        """Add the name, and of a winner, who has `entries`, the review."""
        contestant = place.contestant
        place = replace(
            place,
            name=self.people.names.get(contestant),
            is_disqualified=contestant in self.people.out,
        )
        if entries is None:
            return place
        states = {entry.state for entry in entries}
        state = next((state for state in STATES if state in states), "incomplete")
        place = replace(place, repetitions=state)
        if not self.is_organiser:
            return place
        checks = [self._check(item, place, entries, decided) for item in REVIEW_ITEMS]
        return replace(place, checks=checks, entries=entries)

    def _check(
        self,
        item: ReviewItem,
        place: models.ContestResult,
        entries: Sequence[models.ReviewedEntry],
        decided: Mapping[tuple[str, str], Row],
    ) -> models.ContestCheck:
        evidence, is_doubtful = self._find_evidence(item, place, entries)
        row = decided.get((place.contestant, item))
        decision = {name: row[name] for name in ("is_passed", "note", "actor", "at")} if row else {}
        return models.ContestCheck(
            item=item, evidence=evidence, is_doubtful=is_doubtful, **decision
        )

    def _find_evidence(
        self,
        item: ReviewItem,
        place: models.ContestResult,
        entries: Sequence[models.ReviewedEntry],
    ) -> tuple[str, bool]:
        """What the platform knows of an item, and whether it speaks against the winner."""
        contestant = place.contestant
        match item:
            case "rerun":
                texts = [f"{entry.problem}: {entry.confirmation}" for entry in entries]
                return "; ".join(texts) or "no entry", place.repetitions in ("failed", "differs")
            case "code":
                texts = [f"submission {entry.number} ({entry.problem})" for entry in entries]
                return f"read {', '.join(texts)}" if texts else "no entry", False
            case "duplicates":
                texts = [text for entry in entries if (text := _duplicates_text(entry))]
                none = "no equal or similar source of another contestant"
                return "; ".join(texts) or none, bool(texts)
            case "declaration":
                question = self.people.questions.get(contestant)
                declared = self.people.declarations.get(contestant, "nothing to declare")
                doubt = "" if question is None else f"; questioned: {question}"
                return f"{declared}{doubt}", question is not None
            case "appeals":
                if place.is_disqualified:
                    return "disqualified since the results were announced", True
                return self._appeals_text(), False

    def _appeals_text(self) -> str:
        until_at = self.appeals_until_at
        if until_at is None or until_at <= self.at:
            return "the time for appeals is over"
        return f"may be appealed until {instant_text(until_at, UTC)}"


def _duplicates_text(entry: models.ReviewedEntry) -> str:
    """Name the sources of others that are like that of an entry, "" without any."""
    texts = [f"equal to submission {number}" for number in entry.copies]
    texts += [
        f"{100 * near.similarity:.0f} % like submission {near.number}" for near in entry.near_copies
    ]
    return f"{entry.problem}: {', '.join(texts)}" if texts else ""
