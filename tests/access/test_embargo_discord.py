"""The bot shows nothing early: its commands, its public messages, and its direct messages."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from discord_edge.bot.discord_py import use_discord_url
from discord_edge.client import EdgeBot
from discord_edge.notifications.announcer import TYPES, Announcer
from discord_edge.platform_api import connect_api
from discord_edge.postgres import SCHEMA
from discord_edge.settings import Settings
from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser
from shared import events, subjects
from shared.lifecycle import Lifecycle
from shared.postgres import create_pool, migrate
from shared.settings import Listen
from tests.access.embargoed_contest import (
    SECOND,
    SLUG,
    SPRINT,
    STAGES,
    EmbargoedContest,
    Stage,
    open_embargoed_contest,
)
from tests.access.judging import EVERYBODY, Judge
from tests.discord.bot_process import load_validators
from tests.discord.channel_users import message_text
from tests.ingest.ways import EDGE_TOKEN
from tests.support.serving import serve_app

pytestmark = [pytest.mark.server, pytest.mark.long]

# A contestant, a rival, somebody who takes part in nothing, and an organiser, who sees all.
NAMES = ("owner", "rival", "participant", "olga")
# Each uses so many commands at each side of a border.
COMMANDS = 4
HOURS = (2, 3, 4, 9)
BOARD, CONTEST = {"leaderboard_name": SPRINT}, {"contest": SLUG}
# What reads, with its options; a number stands for a submission.
READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("leaderboard list", {}),
    ("leaderboard show", {**BOARD, "gpu": "CPU"}),
    ("leaderboard show-personal", {**BOARD, "gpu": "CPU"}),
    ("leaderboard get-submission", {"submission_id": 1}),
    ("leaderboard compare", {"a": 1, "b": 1}),
    ("leaderboard task", BOARD),
    ("contest list", {}),
    ("contest show", CONTEST),
    ("contest standing", CONTEST),
    ("contest standing", {**CONTEST, "round": "qualifier"}),
)
TELLING = {"message", "direct message", "/leaderboard show", "/leaderboard get-submission"}
STANDINGS = ("contest standing", "contest show")
# Of the many contestants, and of a problem whose files are not stored.
UNHEARD = ("id-filler-", "problem.identity")
# A flag of messages that one person sees.
EPHEMERAL = 1 << 6
# The bot is away while the first freeze begins, and hears of the others later.
LAST_HEARD = "id-mate"


@dataclass
class DiscordUsers:
    """People who use the bot, which announces what the log says."""

    contest: EmbargoedContest
    sim: Simulator
    announcer: Announcer
    people: dict[str, SimulatedUser]
    channel: str
    chance: random.Random
    judge: Judge = field(default_factory=Judge)
    announced_until: int = 0
    # What each message said when it was searched last, by its id.
    searched: dict[str, str] = field(default_factory=dict)

    async def use(self, stage: Stage) -> None:
        """Use some commands as each person, and search the answers."""
        for name, person in self.people.items():
            for path, options in self.chance.sample(READS, COMMANDS):
                numbers = list(self.contest.numbers.values())
                given = {
                    key: self.chance.choice(numbers) if value == 1 else value
                    for key, value in options.items()
                }
                message = await (await person.slash(self.channel, path, **given)).answered()
                text = self.read(message)
                found, is_standing = self.judge.find(text), path in STANDINGS
                self.judge.judge(found, f"/{path}", name, stage, is_standing=is_standing)

    async def announce(self, stage: Stage, until: str = "") -> None:
        """Let the bot act on new events and on the time, and search what it sent.

        `until` names the submission whose end is the last event that it hears of.
        """
        for event in self.contest.log.since(self.announced_until):
            aggregate, kind = event.envelope.aggregate, event.envelope.type
            if kind in TYPES and not any(it in aggregate for it in UNHEARD):
                await self.announcer.act(event, "")
            self.announced_until = event.seq
            if until and aggregate.endswith(until) and kind == "SubmissionFinished":
                break
        await self.announcer._announce_due()
        self.search_messages(stage)

    def search_messages(self, stage: Stage) -> None:
        """Search the messages that are new or were changed, but for answers to one person."""
        member = self.sim.owner()
        for channel in list(self.sim.guild.channels):
            self.search_all(member.sees(channel), "message", EVERYBODY, stage)
        for name, person in self.people.items():
            self.search_all(person.letters(), "direct message", name, stage)

    def search_all(self, messages: list[Any], surface: str, name: str, stage: Stage) -> None:
        """Search messages that a person can see."""
        for message in messages:
            text = self.read(message)
            is_answer = message.get("flags", 0) & EPHEMERAL
            if not is_answer and self.searched.get(message["id"]) != text:
                self.searched[message["id"]] = text
                self.judge.judge(self.judge.find(text), surface, name, stage)

    def read(self, message: Any) -> str:
        """Return the text of a message and its files."""
        files = [
            self.sim.cdn.data(file).decode("utf-8", "replace") for file in message["attachments"]
        ]
        return "\n".join([message_text(message), *files])


@asynccontextmanager
async def open_bot(contest: EmbargoedContest, sim: Simulator) -> AsyncIterator[Announcer]:
    """Connect the real bot to the simulated Discord, in this process and on its clock."""
    use_discord_url(sim.url)
    migrate(contest.dsn, SCHEMA, "discord_edge")
    async with (
        serve_app(contest.ways.door.app) as (url, _),
        create_pool(contest.dsn, 1, 4, SCHEMA) as pool,
        connect_api(url, EDGE_TOKEN, url) as api,
    ):
        settings = Settings(
            ingest_url=url,
            postgres_dsn=contest.dsn,
            ops_listen=Listen("127.0.0.1", 0),
            guild=int(sim.guild.id),
            token=sim.token,
            edge_token=EDGE_TOKEN,
            api_url=sim.url,
        )
        bot, life = EdgeBot(settings, api, pool), Lifecycle()
        announcer = Announcer(bot.messenger, bot.channels, has_podiums=True)
        running = asyncio.create_task(bot.run_until(settings.token, life))
        try:
            await sim.ready(identified=0)
            await bot.channels.ensure_exist()
            await bot.leaderboards.refresh()
            yield announcer
        finally:
            life.stopping.set()
            await asyncio.wait_for(running, 20)


async def enter(contest: EmbargoedContest, sim: Simulator) -> dict[str, SimulatedUser]:
    """Let people be on Discord, where they are told everything that the bot can tell them."""
    people = {}
    for name in NAMES:
        person = people[name] = sim.person(name)
        path = f"participants/{name}/identities"
        answer = await contest.ways.door.admin(
            "POST", path, provider="discord", subject=str(person.id), reason="r"
        )
        assert answer.is_success, answer.text
        for event in ("overtaken", "run_finished"):
            fact = events.PreferenceSet(preference=event, value="dm")
            await contest.say(subjects.account(contest.account(name)), fact)
    await contest.settle()
    return people


@pytest.mark.feature("N14")
@pytest.mark.timeout(300)
async def test_the_bot_shows_no_secret_before_its_phase(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_embargoed_contest(postgres_dsn, monkeypatch, is_connected=True) as contest,
        Simulator(load_validators()) as sim,
    ):
        people = await enter(contest, sim)
        async with open_bot(contest, sim) as announcer:
            channel = await sim.add_channel("kernels")
            users = DiscordUsers(contest, sim, announcer, people, channel, random.Random(0))
            for stage, following in pairwise(STAGES):
                await contest.receive(stage.hour, following.hour)
                if following.hour not in HOURS:
                    continue
                contest.set_hour(following.hour, -SECOND)
                await users.announce(stage, LAST_HEARD if following.hour == HOURS[0] else "")
                await users.use(stage)
                contest.set_hour(following.hour)
                await users.announce(following)
                await users.use(following)
                users.judge.check()
            # The test can fail: each way told scores to those who may read them.
            assert users.judge.told.keys() >= TELLING
