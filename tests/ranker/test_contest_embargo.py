"""While a contest hides ranks or sources, nobody reads them on any surface of ranker."""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from msgspec import structs

from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import SCHEMA, Reader
from ranker.releases.publication import Problem, Publication
from ranker.service import rating
from ranker.service.progress import Live, ProjectionProgress
from shared import events, subjects
from shared.contests.definition import Contest, Phase
from shared.contests.visibility import find_shown_ranks, list_embargoes
from shared.postgres import create_pool
from shared.reader import READER_HEADER, encode_reader
from shared.reader import Reader as Identity
from tests.ranker.test_contest_standings import HOUR, SLUG, definition, publish_contest
from tests.support.lives import T0, Life, enrol, live, problem, say
from tests.support.memory import MemoryBlobStore, MemoryLog
from tests.support.ranking import is_folded, ranking
from tests.support.waits import eventually

SECOND = timedelta(seconds=1)
PHASES = [
    Phase(kind="registration", starts_at=T0 - HOUR, ends_at=T0),
    Phase(kind="qualifier", starts_at=T0, ends_at=T0 + HOUR, ranks="hidden"),
    Phase(kind="freeze", starts_at=T0 + HOUR, ends_at=T0 + 2 * HOUR, ranks="frozen"),
    Phase(kind="main", starts_at=T0 + 2 * HOUR, ends_at=T0 + 3 * HOUR, sources="registered"),
    Phase(kind="freeze", starts_at=T0 + 3 * HOUR, ends_at=T0 + 4 * HOUR, ranks="frozen"),
    Phase(kind="review", starts_at=T0 + 4 * HOUR, ends_at=T0 + 5 * HOUR, ranks="frozen"),
    Phase(kind="archive", starts_at=T0 + 6 * HOUR, sources="public"),
]


def contest() -> Contest:
    return definition(phases=PHASES)


@pytest.mark.parametrize(
    ("hours", "is_hidden", "until_hours"),
    [
        (-2, False, None),
        (-1, False, None),
        (0, True, None),
        # What was hidden before a freeze stays hidden in it.
        (1, True, None),
        (2, False, None),
        (3, False, 3),
        # A frozen review shows the standing of the freeze before it, and so does the gap after it.
        (4, False, 3),
        (5.5, False, 3),
        (6, False, None),
    ],
)
def test_the_phase_that_started_last_decides_which_ranks_are_shown(
    hours: float, is_hidden: bool, until_hours: float | None
) -> None:
    for delta in (timedelta(0), SECOND):
        ranks = find_shown_ranks(contest(), T0 + hours * HOUR + delta)
        until_at = None if until_hours is None else T0 + until_hours * HOUR
        assert (ranks.is_hidden, ranks.until_at) == (is_hidden, until_at)


def test_each_instant_after_the_start_has_one_embargo_per_problem() -> None:
    embargoes = list_embargoes(contest())
    for minutes in range(-60, 8 * 60, 30):
        at = T0 + timedelta(minutes=minutes)
        found = [embargo for embargo in embargoes if embargo.is_at(at)]
        assert sorted(embargo.problem for embargo in found) == ["identity", "other", "third"]
        assert {embargo.hides_ranks for embargo in found} == {
            not find_shown_ranks(contest(), at).is_live
        }


READERS = {
    "nobody": Identity(),
    "author": Identity(account="zoe", owned=["identity"]),
    "contestant": Identity(account="grace"),
    "owner elsewhere": Identity(account="ada", problems=["other"]),
    "limited organiser": Identity(account="olga", problems=["identity"]),
    "organiser": Identity(account="olga"),
    "staff": Identity(account="root", is_staff=True),
}
PRIVILEGED = ("organiser", "staff")
# What nobody else may read while the ranks are hidden: the score and the number of ada's run.
PATHS = (
    *("leaderboards?top=3&records=5", "leaderboards/identity/CPU", "records"),
    *("leaderboards/identity/CPU/records", "leaderboards/identity/CPU/history", "problems"),
    *("leaderboards/identity/CPU/cases", "leaderboards/identity/CPU/best-times"),
    *("leaderboards/identity/CPU/events", "submissions"),
    *("leaderboards/identity/CPU/history?participant=ada", "participants/ada", "submissions/{n}"),
    *("submissions/{n}/events", "submissions/{n}/lineage", "submissions/{n}/cases"),
    *("submissions/{n}?source=true", "compare?a={n}&b={own}", "submissions/{own}/lineage"),
    *("archive/search?q=identity", "participants/ada/history?problem=identity&gpu=CPU"),
    *(f"contests/{SLUG}/standing", f"contests/{SLUG}/standing?round=qualifier"),
    *(f"contests/{SLUG}/standing?round=practice", "stats", "moderation", "me/submissions"),
    "rating",
)
SCORE = 41.625


@dataclass
class Platform:
    """Reads of a platform with a contest, at any instant."""

    client: httpx.AsyncClient
    number: int
    own: int
    set_clock: Callable[[datetime], None]

    async def read(self, path: str, name: str) -> httpx.Response:
        """Read a path as one of the readers."""
        path = path.format(n=self.number, own=self.own)
        headers = {READER_HEADER: encode_reader(READERS[name]), "accept": "application/json"}
        return await self.client.get(f"/v1/{path}", headers=headers)

    def leaks(self, text: str) -> list[str]:
        """What a response tells of ada's run."""
        numbers = re.findall(rf'"(?:number|best_number)":{self.number}\b', text)
        return numbers + re.findall(r"41\.6\d*", text)


MODULES = (
    *("access", "contests", "leaderboards", "leaderboard_cache", "participants", "problems"),
    *("submissions", "cases"),
)


@pytest.fixture
async def platform(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Platform]:
    log = MemoryLog()
    await enrol(log)
    await publish_contest(log, contest())
    for account in ("ada", "grace"):
        registered = events.ContestRegistered(account=account, division="open", terms_digest="d")
        await say(log, subjects.contest(SLUG), registered)
    lives = Life("best", "ada", SCORE, contest=SLUG), Life("own", "grace", 90.0, contest=SLUG)
    await live(log, *lives)
    async with (
        ranking(log, postgres_dsn) as models,
        create_pool(postgres_dsn, 1, 3, SCHEMA) as pool,
    ):
        rows: list[dict[str, Any]] = []

        async def is_over() -> bool:
            nonlocal rows
            sql = "select id, number from submission where state = 'finished'"
            rows = await models._rows(sql, {})
            return len(rows) == len(lives) and await is_folded(log, models)

        await eventually(is_over)
        numbers = {row["id"]: row["number"] for row in rows}
        progress = ProjectionProgress()
        progress.advance(await log.last())
        reads = Reader(pool)
        app = create_app(ReadSources(reads, progress, Live(), log.last, MemoryBlobStore()))

        def set_clock(at: datetime) -> None:
            for name in MODULES:
                monkeypatch.setattr(f"ranker.http.{name}.now", lambda: at, raising=False)
            monkeypatch.setattr(rating, "now", lambda: at)

        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://ranker") as client:
            yield Platform(client, numbers["best"], numbers["own"], set_clock)


@pytest.mark.feature("N14")
@pytest.mark.server
async def test_no_rank_is_read_a_second_before_its_phase(platform: Platform) -> None:
    shown = T0 + 2 * HOUR
    told: set[str] = set()
    for path in PATHS:
        for name in READERS:
            platform.set_clock(shown if name in PRIVILEGED else shown - SECOND)
            answer = await platform.read(path, name)
            assert answer.status_code < 500, (path, answer.text)
            leaks = platform.leaks(answer.text)
            if name in PRIVILEGED:
                told |= {path} if leaks else set()
            else:
                assert leaks == [], (path, name, answer.text)
    # The check can fail: most of these paths tell the run when they may.
    assert len(told) >= 12, sorted(told)


@pytest.mark.server
async def test_a_contestant_sees_the_own_score_and_no_rank_while_ranks_are_hidden(
    platform: Platform,
) -> None:
    platform.set_clock(T0 + HOUR)
    page = (await platform.read("submissions/{own}", "contestant")).json()
    assert page["ranking"]["status"] == "ranked"
    assert page["ranking"]["score_us"] is not None
    assert page["ranking"]["rank"] is None
    assert page["ranking"]["delta_to_best"] is None
    platform.set_clock(T0 + 2 * HOUR)
    page = (await platform.read("submissions/{own}", "contestant")).json()
    assert page["ranking"]["rank"] == 2


@pytest.mark.server
async def test_no_page_is_kept_beyond_the_phase_that_shows_it(platform: Platform) -> None:
    for delta, status in ((-SECOND, 200), (timedelta(0), 403)):
        platform.set_clock(T0 + 3 * HOUR + delta)
        answer = await platform.read("leaderboards/identity/CPU", "nobody")
        assert answer.status_code == status


@pytest.mark.server
async def test_organisers_and_operators_see_ranks_while_they_are_hidden(
    platform: Platform,
) -> None:
    platform.set_clock(T0 + HOUR)
    for name in PRIVILEGED:
        answer = await platform.read("leaderboards/identity/CPU", name)
        assert answer.status_code == 200
        standing = (await platform.read(f"contests/{SLUG}/standing", name)).json()
        assert [row["contestant"] for row in standing["divisions"][0]["rows"]] == ["ada", "grace"]
    answer = await platform.read("leaderboards/identity/CPU", "nobody")
    assert answer.status_code == 403
    assert f"/v1/contests/{SLUG}/standing" in answer.text


@pytest.mark.feature("N14")
@pytest.mark.server
async def test_a_freeze_shows_what_was_received_before_it(platform: Platform) -> None:
    # All runs were received at the start of the qualifier.
    platform.set_clock(T0 + 3 * HOUR)
    standing = (await platform.read(f"contests/{SLUG}/standing", "nobody")).json()
    assert (standing["state"], standing["is_hidden"]) == ("frozen", False)
    assert datetime.fromisoformat(standing["until_at"]) == T0 + 3 * HOUR
    assert len(standing["divisions"][0]["rows"]) == 2


def test_a_release_has_nothing_of_a_hidden_contest() -> None:
    fact = Life("best", "ada", contest=SLUG).facts()[0][1]
    assert isinstance(fact, events.SubmissionReceived)
    publication = Publication("MIT")
    published = structs.replace(problem(), publish="always")
    publication.licences["ada"] = "MIT"
    publication.problems["identity"] = Problem(contest=SLUG, versions={1: published})
    publication.embargoes[SLUG] = list_embargoes(contest())
    for hours, is_shown, has_sources in (
        (0.5, False, False),
        (1.5, False, False),
        # Only who is registered reads sources then.
        (2.5, True, False),
        (4.5, False, False),
        (6.5, True, True),
    ):
        publication.at = T0 + hours * HOUR
        assert publication.shows_submission("best", fact) == is_shown
        assert publication.publishes_sources("identity") == has_sources
        assert (publication.licence_of("best", fact) is not None) == has_sources
