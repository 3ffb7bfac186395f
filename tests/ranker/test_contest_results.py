"""The results of a contest, with what its organisers review of the winners."""

from datetime import timedelta
from typing import Any

import pytest

from shared import events, subjects
from shared.clock import now
from shared.contests.definition import (
    REVIEW_ITEMS,
    Contest,
    ContestPlace,
    ContestProblem,
    Division,
    Phase,
    Ranks,
)
from shared.events import Fact
from shared.reader import READER_HEADER, Reader, encode_reader
from tests.ranker.podium import Podium, open_podium
from tests.support.lives import T0, Life, live, say

HOUR = timedelta(hours=1)
CUP = "cup"
ORGANISER = Reader(account="olga")


def contest(**changes: Any) -> Contest:
    """Finals on the problem that every life is about, after a qualifier on another."""
    fields: dict[str, Any] = {
        "slug": CUP,
        "title": "Cup",
        "terms": "Be fair.",
        "prizes": "A GPU.",
        "organisers": ["olga"],
        "problems": [
            ContestProblem(
                slug="other", round="qualifier", starts_at=T0 - 2 * HOUR, ends_at=T0 - HOUR
            ),
            ContestProblem(
                slug="identity", round="finals", starts_at=T0, ends_at=T0 + HOUR, gpu="CPU"
            ),
        ],
        "divisions": [Division(slug="open", title="Open")],
        "phases": [
            Phase(kind="registration", starts_at=T0 - 3 * HOUR, ends_at=T0 - 2 * HOUR),
            Phase(kind="finals", starts_at=T0, ends_at=T0 + HOUR, modes=["ranked"]),
        ],
        "register_until_at": T0,
        "finalists": 2,
        "podium": 1,
    }
    return Contest(**fields | changes)


async def announce(podium: Podium, *facts: Fact) -> None:
    """Append events of the contest, and wait until they are folded."""
    for fact in facts:
        await say(podium.log, subjects.contest(CUP), fact)
    await podium.settle()


async def read(podium: Podium, reader: Reader) -> dict[str, Any]:
    """The results as a reader sees them."""
    headers = {READER_HEADER: encode_reader(reader)}
    answer = await podium.http.get(f"/v1/contests/{CUP}/results", headers=headers)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def places(*contestants: str) -> list[ContestPlace]:
    """The places of contestants, in order."""
    return [
        ContestPlace(contestant=name, division="open", place=place, points=10.0 / place)
        for place, name in enumerate(contestants, 1)
    ]


async def begin_contest(podium: Podium, definition: Contest) -> dict[str, int]:
    """A contest whose finalists ada and grace sent runs, and zoe too; the numbers of these."""
    changed = events.LeaderboardChanged(visibility=None, reason="r", contest=CUP)
    await say(podium.log, subjects.problem("identity"), changed)
    people = [
        events.ContestRegistered(account=account, division="open", terms_digest="d")
        for account in ("ada", "grace", "zoe")
    ]
    admitted = events.ContestFinalistsAdmitted(contestants=["ada", "grace"], as_of_seq=1)
    published = events.ContestPublished(number=1, contest=definition)
    await announce(podium, published, *people, admitted)
    await live(
        podium.log,
        Life("slow", "ada", 60.0, contest=CUP),
        Life("best", "ada", 40.0, contest=CUP),
        Life("second", "grace", 90.0, contest=CUP),
        # Not a finalist, with the source of ada's best run.
        Life("copy", "zoe", 41.0, source="best", contest=CUP),
        # Ada left a team, for which she had sent it, too.
        Life("left", "ada", 42.0, source="best", contest=CUP, contestant="team"),
    )
    await podium.settle()
    received = (event for event in podium.log.since(0) if event.envelope.type == RECEIVED)
    return {event.envelope.aggregate.rpartition(".")[2]: event.seq for event in received}


RECEIVED = events.SubmissionReceived.__name__


@pytest.mark.server
@pytest.mark.parametrize("ranks", ["hidden", "frozen"])
async def test_unless_ranks_are_live_finalists_see_themselves_and_organisers_all(
    postgres_dsn: str, ranks: Ranks
) -> None:
    finals = Phase(kind="finals", starts_at=now() - HOUR / 2, modes=["ranked"], ranks=ranks)
    definition = contest(phases=[contest().phases[0], finals])
    async with open_podium(postgres_dsn) as podium:
        await begin_contest(podium, definition)
        for account, seen in (
            (None, []),
            ("zoe", []),
            ("ada", ["ada"]),
            ("olga", ["ada", "grace"]),
        ):
            results = await read(podium, Reader(account=account))
            assert [it["contestant"] for it in results["finalists"]] == seen, account
            headers = {READER_HEADER: encode_reader(Reader(account=account))}
            answer = await podium.http.get(f"/v1/contests/{CUP}/standing", headers=headers)
            assert ('"is_finalist":true' in answer.text) is (account == "olga")


@pytest.mark.server
async def test_organisers_see_what_they_review_of_each_winner(postgres_dsn: str) -> None:
    async with open_podium(postgres_dsn) as podium:
        numbers = await begin_contest(podium, contest())
        results = await read(podium, Reader())
        assert (results["state"], results["places"]) == ("none", [])
        finalists = [finalist["contestant"] for finalist in results["finalists"]]
        assert (finalists, results["prizes"]) == (["ada", "grace"], "A GPU.")

        proposed = events.ContestResultsProposed(places=places("ada", "grace"), as_of_seq=9)
        decided = events.ContestReviewed(
            contestant="ada", item="code", is_passed=False, note="it reads the clock"
        )
        passed = events.ContestReviewed(contestant="ada", item="rerun", is_passed=True)
        again = events.ContestReviewed(contestant="ada", item="code", is_passed=True, note="fine")
        await announce(podium, proposed, decided, passed, again)
        results = await read(podium, ORGANISER)
        assert (results["state"], results["results_as_of"]) == ("provisional", 9)
        first, second = results["places"]
        shown = [(item["item"], item["is_passed"], item["note"]) for item in first["checks"]]
        assert shown[:2] == [("rerun", True, ""), ("code", True, "fine")]
        assert shown[2:] == [(it, None, "") for it in REVIEW_ITEMS[2:]]
        (entry,) = first["entries"]
        assert (entry["problem"], entry["number"]) == ("identity", numbers["best"])
        copies = [numbers["copy"], numbers["left"]]
        assert entry["copies"] == copies
        duplicates = first["checks"][2]
        assert duplicates["is_doubtful"]
        assert duplicates["evidence"] == (
            f"identity: equal to submission {copies[0]}, equal to submission {copies[1]}"
        )
        # Only the podium is reviewed.
        assert (second["contestant"], second["checks"], second["entries"]) == ("grace", None, None)

        confirmed = events.ContestResultsConfirmed(places=places("ada", "grace"), as_of_seq=9)
        await announce(podium, confirmed)
        for reader in (Reader(), Reader(account="grace")):
            results = await read(podium, reader)
            assert results["state"] == "final"
            assert [place["contestant"] for place in results["places"]] == ["ada", "grace"]
            assert {place["checks"] for place in results["places"]} == {None}
            assert {place["entries"] for place in results["places"]} == {None}
        assert (await read(podium, ORGANISER))["places"][0]["entries"] == [entry]

        # Results that are proposed again are provisional again.
        await announce(podium, proposed)
        assert (await read(podium, Reader()))["state"] == "provisional"


@pytest.mark.server
async def test_a_standing_that_moved_after_the_results_is_not_called_final(
    postgres_dsn: str,
) -> None:
    async with open_podium(postgres_dsn) as podium:
        await begin_contest(podium, contest())

        async def state() -> str:
            answer = await podium.http.get(f"/v1/contests/{CUP}/standing")
            assert answer.status_code == 200, answer.text
            return str(answer.json()["state"])

        assert await state() == "live"
        final = places("ada", "grace")
        await announce(podium, events.ContestResultsProposed(places=final, as_of_seq=9))
        assert await state() == "provisional"
        await announce(podium, events.ContestResultsConfirmed(places=final, as_of_seq=9))
        assert await state() == "final"
        await announce(podium, events.ContestDisqualified(subject="ada", reason="r"))
        assert await state() == "live"
        assert (await read(podium, Reader()))["state"] == "final"
