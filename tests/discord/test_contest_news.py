"""What the bot announces of contests, over a real platform in this process and a moved clock."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from msgspec import structs

from discord_edge.contests import texts
from discord_edge.contests.announcer import ContestAnnouncer
from discord_edge.contests.commands import check_form
from discord_edge.contests.postgres import PostgresContests
from discord_edge.platform_api import PlatformApi
from discord_edge.postgres import SCHEMA
from shared import events, subjects
from shared.api.contest_standings import ContestResult, ContestStanding
from shared.api.contests import Contestant, ContestDetails, ContestMember, Contests
from shared.clock import now
from shared.contests.definition import (
    Contest,
    ContestPlace,
    Division,
    MovedTime,
    Phase,
    find_moved_times,
)
from shared.errors import Failed, Refused
from shared.postgres import create_pool, migrate
from tests.ingest.test_site_contests import SLUG, contest, publish
from tests.ingest.ways import Ways, open_ways
from tests.support.api_examples import make_example
from tests.support.lives import say
from tests.support.waits import eventually

HOUR = timedelta(hours=1)
SITE = "https://kernels.example"
HOSTILE = "**@everyone** <@&1> `x`\n# big"
AT = datetime(2126, 12, 1, tzinfo=UTC)


class Channel:
    """Where announcements go: each name once, as the ledger of sent messages does it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.is_away = False

    async def send(self, name: str, text: str) -> None:
        """Send a text under a name once."""
        if self.is_away:
            raise Failed("Discord does not answer")
        self.texts.setdefault(name, text)

    def take(self) -> list[str]:
        """Return the new texts."""
        new, self.texts = list(self.texts.values()), {}
        return new


class News:
    """An announcer that may be restarted, its channel, and its clock."""

    def __init__(self, ways: Ways, tables: PostgresContests, api: PlatformApi) -> None:
        self.ways, self.tables, self.api = ways, tables, api
        self.channel, self.at = Channel(), now()
        self.restart()

    def restart(self) -> None:
        """Replace the announcer, as a new process does."""
        send, tables = self.channel.send, self.tables
        self.announcer = ContestAnnouncer(self.api, tables, send, lambda: self.at)

    async def publish(self, definition: Contest) -> None:
        """Publish the contest, and wait until it is listed."""
        await publish(self.ways, definition)

        async def is_listed() -> bool:
            return bool((await self.api.get(Contests, "contests")).items)

        await eventually(is_listed)

    async def look(self, at: datetime) -> list[str]:
        """Move the clock to an instant, and return what is announced."""
        self.at = at
        await self.announcer.announce_phases()
        # A second look has nothing new.
        await self.announcer.announce_phases()
        return self.channel.take()

    async def hear(self, fact: events.ContestFact) -> list[str]:
        """Append an event of the contest, and return what is announced of it, also after a kill."""
        aggregate = subjects.contest(SLUG)
        await say(self.ways.door.log, aggregate, fact)
        await self.ways.reads.settle()
        recorded = (await self.ways.door.log.history(aggregate))[-1]
        await self.announcer.announce(SLUG, recorded)
        self.restart()
        await self.announcer.announce(SLUG, recorded)
        return self.channel.take()


@pytest.fixture
async def news(postgres_dsn: str) -> AsyncIterator[News]:
    """An announcer over the whole application."""
    migrate(postgres_dsn, SCHEMA, "discord_edge")
    async with open_ways(postgres_dsn) as ways, create_pool(postgres_dsn, 1, 1, SCHEMA) as pool:
        transport = httpx.ASGITransport(ways.door.app, client=("203.0.113.99", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
            yield News(ways, PostgresContests(pool), PlatformApi(client, SITE))


def phases_from(at: datetime, main_hours: int = 1, **changes: Any) -> list[Phase]:
    """Return the registration from an hour ago on, and a round of an hour in so many hours."""
    main_at = at + main_hours * HOUR
    registration = Phase(kind="registration", starts_at=at - HOUR, ends_at=main_at)
    main = Phase(kind="main", starts_at=main_at, ends_at=main_at + HOUR, modes=["ranked"])
    freeze_at, archive_at = main_at + HOUR, main_at + 2 * HOUR
    freeze = Phase(kind="freeze", starts_at=freeze_at, ends_at=archive_at, ranks="frozen")
    archive = Phase(kind="archive", starts_at=archive_at, sources="public")
    return [registration, main, freeze, structs.replace(archive, **changes)]


@pytest.mark.server
@pytest.mark.feature("C3", "N14", "P20")
async def test_each_phase_is_announced_once_whatever_restarts_or_is_away(news: News) -> None:
    at = now()
    await news.publish(contest(*phases_from(at)))
    # What began before there was an announcer is not news.
    assert await news.look(at) == []
    assert await news.look(at + HOUR - timedelta(seconds=1)) == []
    [main] = await news.look(at + HOUR)
    assert "**Main round** has begun, until <t:" in main
    assert "Problems: `identity`, `secret`." in main
    assert f"<{SITE}/contests/{SLUG}>" in main
    news.channel.is_away = True
    with pytest.raises(Failed):
        await news.look(at + 2 * HOUR)
    news.restart()
    news.channel.is_away = False
    # It slept through the whole freeze.
    freeze, archive = await news.look(at + 4 * HOUR)
    assert "**Freeze** took place from <t:" in freeze
    assert "**Archive** has begun." in archive
    assert "Everybody can read the ranked sources." in archive
    news.restart()
    assert await news.look(at + 5 * HOUR) == []


@pytest.mark.server
@pytest.mark.feature("C3", "P20")
async def test_a_moved_phase_is_announced_when_it_begins_in_the_end(news: News) -> None:
    at = now()
    before = contest(*phases_from(at))
    [published] = await news.hear(events.ContestPublished(number=1, contest=before))
    assert "A new contest: **Summer 2026** · `summer`" in published
    assert "▶ Registration: <t:" in published
    after = contest(*phases_from(at, 2))
    # An update that has not arrived here yet is asked for before a phase is announced.
    moved = events.ContestPublished(
        number=2, contest=after, moved=find_moved_times(before, after), reason="<@&1> fell ill"
    )
    await say(news.ways.door.log, subjects.contest(SLUG), moved)
    assert await news.look(at + HOUR) == []
    [text] = await news.hear(structs.replace(moved, number=3))
    begun, to = (int((at + hours * HOUR).timestamp()) for hours in (1, 2))
    assert f"• Main round starts: <t:{begun}:f> → <t:{to}:f>" in text
    assert "<@&1>" not in text
    [main] = await news.look(at + 2 * HOUR)
    assert "**Main round** has begun" in main
    # It begins once more if it is moved into the future.
    latest = contest(*phases_from(at, 4))
    assert await news.hear(events.ContestPublished(number=4, contest=latest)) == []
    assert await news.look(at + 3 * HOUR) == []
    [main] = await news.look(at + 4 * HOUR)
    assert "**Main round** has begun" in main


@pytest.mark.server
@pytest.mark.feature("C3", "P20")
@pytest.mark.parametrize("is_hidden", [False, True])
async def test_results_name_winners_only_where_the_phase_shows_ranks(
    news: News, is_hidden: bool
) -> None:
    owner = news.ways.people["owner"].account
    start, ranks = now() - 4 * HOUR, "hidden" if is_hidden else "live"
    await news.publish(contest(*phases_from(start, ranks=ranks)))
    registered = events.ContestRegistered(account=owner, division="open", terms_digest="d")
    await say(news.ways.door.log, subjects.contest(SLUG), registered)
    place = ContestPlace(contestant=owner, division="open", place=1, points=25)
    proposed = events.ContestResultsProposed(places=[place], as_of_seq=1, appeals_until_at=AT)
    [text] = await news.hear(proposed)
    assert "provisional results are out" in text
    assert f"until <t:{int(AT.timestamp())}:F>" in text
    assert "owner" not in text
    [text] = await news.hear(events.ContestResultsConfirmed(places=[place], as_of_seq=1))
    assert "the results are final" in text
    assert ("🥇 **owner** · 25 points" in text) is not is_hidden
    assert ("owner" in text) is not is_hidden


@pytest.mark.server
@pytest.mark.feature("C3", "P20")
@pytest.mark.parametrize("ranks", ["live", "frozen", "hidden"])
async def test_finalists_are_announced_with_names_only_where_the_phase_shows_ranks(
    news: News, ranks: str
) -> None:
    owner = news.ways.people["owner"].account
    phases = phases_from(now() - 4 * HOUR, ranks=ranks)
    await news.publish(contest(*phases))
    registered = events.ContestRegistered(account=owner, division="open", terms_digest="d")
    await say(news.ways.door.log, subjects.contest(SLUG), registered)
    admitted = events.ContestFinalistsAdmitted(contestants=[owner], as_of_seq=1)
    [text] = await news.hear(admitted)
    assert "1 finalist admitted to the finals." in text
    assert ("**owner**" in text) is (ranks == "live")
    assert ("owner" in text) is (ranks == "live")
    # A later list replaces the first one, and is announced, too.
    [text] = await news.hear(structs.replace(admitted, contestants=[]))
    assert "0 finalists admitted" in text


def large_contest() -> Contest:
    """Return a contest whose texts are as long and as hostile as they may be."""
    start = AT - 8 * HOUR
    problems = [
        structs.replace(contest(*phases_from(start)).problems[0], slug=f"{'s' * 90}-{count}")
        for count in range(64)
    ]
    return contest(
        *phases_from(start),
        title=HOSTILE * 10,
        description=HOSTILE * 100,
        prizes=HOSTILE * 100,
        problems=problems,
        divisions=[Division(slug=f"d{count}", title=HOSTILE * 5) for count in range(16)],
    )


def test_texts_keep_discords_limits_and_mention_nobody() -> None:
    large, link = large_contest(), f"{SITE}/contests/{SLUG}"
    moved = [
        MovedTime(name=f"problems.{problem.slug}.ends", from_at=AT, to_at=AT + index * HOUR)
        for index, problem in enumerate(large.problems)
    ]
    places = [
        ContestResult(
            contestant=f"{place}", name=HOSTILE * 5, division=division.slug, place=place, points=1.5
        )
        for division in large.divisions
        for place in (1, 2, 3, 4)
    ]
    said = [
        texts.published_text(large, AT, link),
        *(texts.phase_text(large, phase, AT, link) for phase in large.phases),
        texts.moved_text(large, moved, HOSTILE * 20, link),
        texts.provisional_text(large, AT, link),
        texts.finalists_text(large, 64, [HOSTILE * 5] * 64, link),
        texts.final_text(large, places, link),
    ]
    for text in said:
        assert len(text) <= 2000
        assert text.endswith(f"<{link}>")
        assert "@everyone" not in text
        assert "<@&1>" not in text
        assert "\n# big" not in text


def test_cards_keep_discords_limits_and_the_user_s_part() -> None:
    large = large_contest()
    member = ContestMember(participant_id="a", participant=HOSTILE * 5)
    own = make_example(
        Contestant,
        name=HOSTILE * 5,
        is_team=True,
        captain="a",
        members=[member] * 16,
        declaration={"model": HOSTILE * 20},
        doubt=HOSTILE * 50,
    )
    details = make_example(
        ContestDetails, contest=large, own=own, terms_digest="0" * 64, accepted_terms="1" * 64
    )
    card = texts.contest_card(details, AT, f"{SITE}/contests/{SLUG}")
    assert len(card.body) <= 4096
    assert "You take part in the team" in card.body
    assert card.body.splitlines()[-1].endswith(" more")
    assert "@everyone" not in card.body
    terms = structs.replace(large, terms="``` @everyone\n" * 3000)
    text, is_long = texts.terms_text(structs.replace(details, contest=terms), "d1", SITE)
    assert is_long
    assert len(text) <= 2000
    assert text.count("```") == 2


def test_a_division_that_demands_more_than_a_form_has_leads_to_the_page() -> None:
    division, link = Division(slug="d", title="D", declare=list("abcde")), f"{SITE}/contests/{SLUG}"
    check_form(division, link)
    with pytest.raises(Refused) as refused:
        check_form(structs.replace(division, declare=list("abcdef")), link)
    assert refused.value.reason.endswith(f"take part on the contest's page instead, <{link}>")


def test_hidden_ranks_have_no_rows() -> None:
    standing = make_example(ContestStanding, is_hidden=True, divisions=[])
    assert texts.standing_card(standing, "").body == "Ranks are hidden in this phase."


def test_shared_places_have_the_same_medal_and_the_disqualified_none() -> None:
    places = [
        ContestResult(contestant=f"c{place}", name=name, division="open", place=place, points=10)
        for name, place in (("ada", 1), ("ben", 1), (None, 3), ("dan", 4))
    ]
    places[1] = structs.replace(places[1], is_disqualified=True)
    text = texts.final_text(contest(*phases_from(AT)), [*places, places[0]], "")
    assert [line.partition(" ")[0] for line in text.splitlines()[2:]] == ["🥇", "🥇", "🥉"]
    assert texts.UNNAMED in text
    assert "ben" not in text
