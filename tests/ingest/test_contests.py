"""Contests over a log in memory, with a clock that tests move: publish, enter, submit, judge."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from ingest.contests.service import Registration
from ingest.decisions import DecisionResult
from ingest.identity.caller import Caller
from ingest.identity.scopes import CREATOR_SCOPES, PARTICIPANT_SCOPES, STAFF_SCOPES
from ingest.submissions.resolution import Upload
from shared import events, subjects
from shared.api.submissions import SubmissionRequest
from shared.contests.definition import MovedTime
from shared.errors import Refused
from tests.ingest.taking_in import ADA, ANN, T0, IntakeHarness, open_intake
from tests.support.contests import SLUG, TERMS, contest_fields, contest_upload
from tests.support.door import KERNEL, taken_in
from tests.support.lives import say

pytestmark = pytest.mark.server
ANN_CALLER = Caller(ANN.removeprefix("account:"), "ann", CREATOR_SCOPES, kind="token")
OPERATOR = Caller(name="root", scopes=STAFF_SCOPES, kind="operator")
DIGEST = hashlib.sha256(TERMS).hexdigest()
ASSISTED = Registration("assisted", DIGEST, {"model": "m-1"}, "")
HAND = Registration("hand", DIGEST, {}, "")


def person(name: str) -> Caller:
    """Return a participant."""
    return Caller(f"account-of-{name}", name, PARTICIPANT_SCOPES, kind="token")


BEN, EVE, DAN = person("ben"), person("eve"), person("dan")


@asynccontextmanager
async def open_contest(**changes: object) -> AsyncIterator[IntakeHarness]:
    """Open the services with a contest, an hour before it starts; olga organises it."""
    async with open_intake() as intake:
        intake.olga = await intake.commands.contests.store.open_account("olga")  # type: ignore[attr-defined]
        for caller in (ADA, BEN, EVE, DAN):
            await intake.commands.contests.store.open_account(caller.name)
        fields = contest_fields(T0 + timedelta(hours=1), **changes)
        await intake.commands.contests.publish(ANN_CALLER, contest_upload(fields))
        yield intake


def organiser(intake: IntakeHarness) -> Caller:
    """Return olga, who organises the contest and has no role."""
    return Caller(intake.olga, "olga", PARTICIPANT_SCOPES, kind="token")  # type: ignore[attr-defined]


def set_hour(intake: IntakeHarness, hour: float) -> None:
    """Move the clock to an hour of the contest."""
    intake.at = T0 + timedelta(hours=1 + hour)


async def refusal(awaitable: Awaitable[object]) -> str:
    """Return the code of a refusal."""
    with pytest.raises(Refused) as refused:
        await awaitable
    return refused.value.code


async def history(intake: IntakeHarness) -> list[events.Fact]:
    """Return the events of the contest."""
    return [event.fact for event in await intake.log.history(subjects.contest(SLUG))]


async def submit(intake: IntakeHarness, caller: Caller, mode: str = "test") -> object:
    """Submit to the problem copy, and return its event."""
    request = SubmissionRequest("kernel.py", KERNEL, "copy", mode, ("CPU",))
    receipts = await intake.commands.intake.submit(Upload(caller, request, "http", None, ""))
    number = receipts.submissions[0].number
    return next(fact for seq, _, fact in taken_in(intake.log) if seq == number)


async def test_many_people_register_at_the_same_moment() -> None:
    async with open_contest() as intake:
        set_hour(intake, 0)
        contests = intake.commands.contests
        people = [person(f"p{number}") for number in range(40)]
        await asyncio.gather(*(contests.register(caller, SLUG, HAND) for caller in people))
        assert len(await contests.contestants(OPERATOR, SLUG)) == len(people)


async def test_a_publication_sets_the_deadline_and_the_contest_of_each_problem() -> None:
    async with open_contest() as intake:
        settings = await intake.commands.boards.settings(ADA, "copy")
        assert settings.contest == SLUG
        assert settings.deadline_at == T0 + timedelta(hours=5)
        (summary,) = await intake.commands.contests.listed()
        assert (summary.slug, summary.phase, summary.next_phase) == (SLUG, None, "registration")
        assert await refusal(intake.close_at(T0)) == "wrong_state"


async def test_the_same_file_again_is_no_version() -> None:
    async with open_contest() as intake:
        fields = contest_fields(T0 + timedelta(hours=1))
        again = contest_upload(fields, is_update=True)
        published = await intake.commands.contests.publish(organiser(intake), again)
        assert (published.number, published.is_new) == (1, False)
        assert await refusal(
            intake.commands.contests.publish(OPERATOR, contest_upload(fields))
        ) == ("wrong_state")


async def test_a_dry_run_refuses_the_same_and_stores_nothing() -> None:
    async with open_intake() as intake:
        contests, fields = intake.commands.contests, contest_fields(T0)
        dry_run = contest_upload(fields, is_dry_run=True)
        assert await refusal(contests.publish(ANN_CALLER, dry_run)) == "bad_contest"
        await contests.store.open_account("olga")
        assert (await contests.publish(ANN_CALLER, dry_run)).is_new
        assert await history(intake) == []


async def test_only_the_author_of_its_problems_or_an_operator_publishes_a_contest() -> None:
    async with open_intake() as intake:
        contests, upload = intake.commands.contests, contest_upload(contest_fields(T0))
        await contests.store.open_account("olga")
        other = replace(ANN_CALLER, account="account-of-zoe")
        assert await refusal(contests.publish(other, upload)) == "not_yours"
        assert await refusal(contests.publish(ADA, upload)) == "scope_missing"
        assert (await contests.publish(OPERATOR, upload)).number == 1


async def test_only_organisers_and_operators_update_a_contest_and_a_moved_time_is_named() -> None:
    async with open_contest() as intake:
        contests = intake.commands.contests
        fields = contest_fields(T0 + timedelta(hours=1))
        fields["phases"][4]["starts"] = (T0 + timedelta(hours=5.5)).isoformat()
        fields["phases"][3]["ends"] = fields["phases"][4]["starts"]
        upload = contest_upload(fields, is_update=True, reason="the network was down")
        for caller in (ADA, ANN_CALLER, replace(organiser(intake), scopes=frozenset({"submit"}))):
            assert await refusal(contests.publish(caller, upload)) in ("not_yours", "scope_missing")
        published = await contests.publish(organiser(intake), upload)
        end_at = T0 + timedelta(hours=5)
        assert published.number == 2
        assert (
            MovedTime(
                name="phases.review.starts", from_at=end_at, to_at=end_at + timedelta(minutes=30)
            )
            in published.moved
        )
        settings = await intake.commands.boards.settings(ADA, "copy")
        assert settings.deadline_at == end_at + timedelta(minutes=30)


@pytest.mark.feature("N14")
async def test_a_registration_accepts_the_terms_within_its_window() -> None:
    async with open_contest() as intake:
        contests = intake.commands.contests
        assert await refusal(contests.register(ADA, SLUG, ASSISTED)) == "contest_closed"
        set_hour(intake, 0)
        for wrong, code in (
            (ASSISTED._replace(terms_digest="0" * 64), "terms_not_accepted"),
            (ASSISTED._replace(division="fast"), "invalid_request"),
            (ASSISTED._replace(declaration={}), "invalid_request"),
            (HAND._replace(declaration={"model": "m"}), "invalid_request"),
        ):
            assert await refusal(contests.register(ADA, SLUG, wrong)) == code
        await contests.register(ADA, SLUG, ASSISTED)
        assert await refusal(contests.register(ADA, SLUG, ASSISTED)) == "already_registered"
        assert await refusal(contests.register(organiser(intake), SLUG, HAND)) == "wrong_state"
        set_hour(intake, 3)
        assert await refusal(contests.register(BEN, SLUG, HAND)) == "contest_closed"
        (registered,) = (await intake.log.history(subjects.contest(SLUG)))[1:]
        assert registered.envelope.at == T0 + timedelta(hours=1)
        assert registered.fact == events.ContestRegistered(
            account=ADA.id, division="assisted", terms_digest=DIGEST, declaration={"model": "m-1"}
        )


@pytest.mark.feature("N7")
async def test_a_team_fills_up_and_changes_until_its_moment() -> None:
    async with open_contest() as intake:
        contests = intake.commands.contests
        set_hour(intake, 0)
        for caller in (ADA, BEN, EVE):
            await contests.register(caller, SLUG, HAND)
        created = await contests.create_team(ADA, SLUG, "Fast Three")
        assert await refusal(contests.create_team(BEN, SLUG, "fast three")) == "name_taken"
        assert await refusal(contests.join_team(BEN, SLUG, "x" * 26)) == "invalid_invite"
        assert await refusal(contests.join_team(DAN, SLUG, created.code)) == "not_registered"
        await contests.join_team(BEN, SLUG, created.code)
        assert await refusal(contests.join_team(EVE, SLUG, created.code)) == "team_full"
        assert await refusal(contests.change_team_code(BEN, SLUG)) == "not_yours"
        assert await refusal(contests.declare(BEN, SLUG, "hand", {})) == "not_yours"
        code = (await contests.change_team_code(ADA, SLUG)).code
        assert await refusal(contests.join_team(EVE, SLUG, created.code)) == "invalid_invite"
        # The captain leaves, so the other member is the captain.
        await contests.leave_team(ADA, SLUG, None)
        await contests.join_team(EVE, SLUG, code)
        (team, _) = sorted(await contests.contestants(BEN, SLUG), key=lambda item: not item.is_team)
        assert (team.captain, [member.participant_id for member in team.members]) == (
            BEN.id,
            [BEN.id, EVE.id],
        )
        set_hour(intake, 2)
        assert await refusal(contests.leave_team(EVE, SLUG, None)) == "contest_closed"
        assert await refusal(contests.withdraw(EVE, SLUG)) == "contest_closed"
        assert await refusal(contests.create_team(ADA, SLUG, "Late")) == "contest_closed"
        await contests.withdraw(ADA, SLUG)


@pytest.mark.feature("C3", "A5")
async def test_submissions_are_taken_by_phase_mode_and_registration() -> None:
    async with open_contest() as intake:
        contests = intake.commands.contests
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, HAND)
        await contests.register(BEN, SLUG, HAND)
        team = (await contests.create_team(BEN, SLUG, "Duo")).team
        assert await refusal(submit(intake, ADA)) == "contest_closed"
        seen = []
        for hour, caller, mode, outcome in (
            (1, ADA, "test", "practice"),
            (1, ADA, "ranked", "contest_closed"),
            (1, EVE, "test", "not_registered"),
            (2, ADA, "ranked", "contest"),
            (2, BEN, "test", "contest"),
            (2, EVE, "test", "not_registered"),
            (3.999, ADA, "ranked", "contest"),
            (4, ADA, "ranked", "contest_closed"),
            (5, EVE, "ranked", "practice"),
        ):
            set_hour(intake, hour)
            if outcome in ("practice", "contest"):
                fact = await submit(intake, caller, mode)
                assert isinstance(fact, events.SubmissionReceived)
                assert (fact.class_, fact.contest) == (outcome, SLUG)
                seen.append(fact.contestant)
            else:
                assert await refusal(submit(intake, caller, mode)) == outcome, (hour, mode)
        assert seen == [ADA.id, ADA.id, team, ADA.id, ""]


@pytest.mark.feature("C12")
async def test_a_team_shares_the_quota_of_a_phase_even_if_the_phase_moves() -> None:
    async with open_contest() as intake:
        contests = intake.commands.contests
        set_hour(intake, 0)
        for caller in (ADA, BEN, EVE):
            await contests.register(caller, SLUG, HAND)
        created = await contests.create_team(ADA, SLUG, "Duo")
        await contests.join_team(BEN, SLUG, created.code)
        set_hour(intake, 2)
        first = await submit(intake, ADA, "ranked")
        assert isinstance(first, events.SubmissionReceived)
        assert (first.bucket, first.contest_bucket) == ("", "copy.main.ranked")
        await submit(intake, BEN, "ranked")
        with pytest.raises(Refused, match=r"2 of 2 of copy\.main\.ranked are used") as refused:
            await submit(intake, ADA, "ranked")
        assert refused.value.code == "quota_exceeded"
        # Tests, and another contestant, have quotas of their own.
        await submit(intake, BEN, "test")
        await submit(intake, EVE, "ranked")
        moved = contest_fields(T0 + timedelta(hours=1))
        moved["phases"][3]["starts"] = (T0 + timedelta(hours=4.5)).isoformat()
        again = contest_upload(moved, is_update=True)
        assert (await contests.publish(organiser(intake), again)).is_new
        assert await refusal(submit(intake, ADA, "ranked")) == "quota_exceeded"
        # What the platform fails, the scheduler pays back to the team.
        key = subjects.contest_quota_id(SLUG, created.team)
        taken = await intake.log.history(subjects.quota(key))
        assert [type(event.fact) for event in taken] == [events.QuotaTaken] * 2
        assert isinstance(taken[0].fact, events.QuotaTaken)
        back = events.QuotaReturned(
            submission=taken[0].fact.submission,
            bucket=first.contest_bucket,
            cost=1,
            reason="infra_failed",
        )
        await say(intake.log, subjects.quota(key), back)
        await submit(intake, BEN, "ranked")
        assert await refusal(submit(intake, BEN, "ranked")) == "quota_exceeded"


@pytest.mark.feature("C12")
async def test_an_operators_limit_for_a_team_overrides_the_quota_of_the_phase() -> None:
    async with open_contest() as intake:
        contests = intake.commands.contests

        async def left(caller: Caller) -> dict[str, tuple[int, int]]:
            balances = await contests.phase_balances(caller, "")
            assert {balance.contest for balance in balances} <= {SLUG}
            return {it.bucket: (it.used, it.limit) for it in balances}

        async def limit(team: str, bucket: str, most: int) -> str | None:
            command = events.QuotaLimitSet(bucket=bucket, limit=most, window_s=0.0, reason="r")
            try:
                await contests.limit_team(SLUG, team, command, "root")
            except Refused as refused:
                return f"{refused.code} {refused.field}"
            return None

        set_hour(intake, 0)
        for caller in (ADA, BEN, EVE):
            await contests.register(caller, SLUG, HAND)
        created = await contests.create_team(ADA, SLUG, "Duo")
        await contests.join_team(BEN, SLUG, created.code)
        assert await left(ADA) == {}
        set_hour(intake, 2)
        for _ in range(2):
            await submit(intake, ADA, "ranked")
        assert await limit("duo", "copy.main.ranked", 3) is None
        assert await left(BEN) == {"copy.main.ranked": (2, 3)}
        assert await left(EVE) == {"copy.main.ranked": (0, 2)}
        assert await left(DAN) == {}
        assert await contests.phase_balances(BEN, "softmax") == []
        await submit(intake, BEN, "ranked")
        with pytest.raises(Refused, match=r"3 of 3 of copy\.main\.ranked are used in the phase"):
            await submit(intake, ADA, "ranked")
        # A limit covers what the phase does not limit, the most specific one counts, and -1 lifts.
        assert await limit(created.team, "*.*.test", 0) is None
        assert await left(BEN) == {"copy.main.test": (0, 0), "copy.main.ranked": (3, 3)}
        assert await refusal(submit(intake, BEN, "test")) == "quota_exceeded"
        assert await limit(created.team, "copy.main.ranked", events.UNLIMITED) is None
        assert await left(BEN) == {"copy.main.test": (0, 0)}
        await submit(intake, ADA, "ranked")
        assert await limit(EVE.id, "*.main.ranked", 0) is None
        assert await refusal(submit(intake, EVE, "ranked")) == "quota_exceeded"
        assert await limit(ADA.id, "*.*.ranked", 1) == "unknown_contestant team"
        for bucket in ("copy.CPU.ranked", "softmax.main.ranked", "copy.main.profile", "copy.main"):
            assert await limit("duo", bucket, 1) == "invalid_request bucket"
        assert await limit("duo", "*.*.*", -2) == "invalid_request limit"


async def test_a_refusal_says_when_the_mode_opens() -> None:
    async with open_contest() as intake:
        set_hour(intake, 1)
        with pytest.raises(Refused) as refused:
            await submit(intake, ADA, "ranked")
        assert refused.value.retry_after_s == 3600
        assert "2026-01-01T03:00:00+00:00" in refused.value.reason


async def test_a_disqualified_member_is_out_and_the_rest_of_the_team_stays() -> None:
    async with open_contest() as intake:
        contests, olga = intake.commands.contests, organiser(intake)
        set_hour(intake, 0)
        for caller in (ADA, BEN):
            await contests.register(caller, SLUG, HAND)
        created = await contests.create_team(ADA, SLUG, "Duo")
        await contests.join_team(BEN, SLUG, created.code)
        set_hour(intake, 2)
        assert await refusal(contests.moderate(BEN, SLUG, "disqualify", ADA.id, "r")) == "not_yours"
        await contests.moderate(olga, SLUG, "disqualify", ADA.id, "shared a solution")
        assert await refusal(submit(intake, ADA)) == "disqualified"
        await submit(intake, BEN)
        (team,) = await contests.contestants(DAN, SLUG)
        assert (team.is_disqualified, team.disqualified) == (False, None)
        await contests.moderate(olga, SLUG, "disqualify", "duo", "all of them")
        assert await refusal(submit(intake, BEN)) == "disqualified"
        (team,) = await contests.contestants(olga, SLUG)
        assert (team.is_disqualified, team.disqualified) == (True, "shared a solution")
        await contests.moderate(olga, SLUG, "restore", created.team, "an error")
        await submit(intake, BEN)


async def test_a_questioned_declaration_is_changed_or_accepted() -> None:
    async with open_contest() as intake:
        contests, olga = intake.commands.contests, organiser(intake)
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, ASSISTED)
        moderator = replace(person("max"), scopes=PARTICIPANT_SCOPES | {"admin:submissions"})
        await contests.moderate(moderator, SLUG, "question", ADA.id, "which model?")
        own = (await contests.details(ADA, SLUG)).own
        assert own is not None
        assert own.doubt == "which model?"
        (seen,) = await contests.contestants(BEN, SLUG)
        assert (seen.doubt, seen.declaration) == (None, None), "others see no declaration"
        await contests.declare(ADA, SLUG, "assisted", {"model": "m-2"})
        (seen,) = await contests.contestants(olga, SLUG)
        assert (seen.doubt, seen.declaration) == ("", {"model": "m-2"})
        await contests.moderate(olga, SLUG, "question", ADA.id, "are you sure?")
        await contests.moderate(olga, SLUG, "accept", ADA.id, "they showed it")
        (seen,) = await contests.contestants(olga, SLUG)
        assert seen.doubt == ""


async def test_a_code_lets_so_many_people_into_a_contest_by_invitation() -> None:
    async with open_contest(invite_only=True) as intake:
        contests, olga = intake.commands.contests, organiser(intake)
        set_hour(intake, 0)
        assert await refusal(contests.invite(ADA, SLUG, 1, None)) == "not_yours"
        code = (await contests.invite(olga, SLUG, 1, None)).code
        assert await refusal(contests.register(ADA, SLUG, HAND)) == "invalid_invite"
        await contests.register(ADA, SLUG, HAND._replace(code=code))
        by_code = contests.register(BEN, SLUG, HAND._replace(code=code))
        assert await refusal(by_code) == "invite_claimed"


async def test_an_update_keeps_what_has_results_and_people() -> None:
    async with open_contest() as intake:
        contests, olga = intake.commands.contests, organiser(intake)
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, ASSISTED)
        await contests.register(BEN, SLUG, HAND)
        team = await contests.create_team(ADA, SLUG, "Duo")
        await contests.join_team(BEN, SLUG, team.code)

        async def update(**changes: object) -> str:
            fields = contest_fields(T0 + timedelta(hours=1), **changes)
            return await refusal(contests.publish(olga, contest_upload(fields, is_update=True)))

        assert await update(divisions=[]) == "wrong_state"
        assert await update(teams={"size_max": 1}) == "wrong_state"


async def test_a_phase_begins_and_ends_at_its_instant_for_a_submission() -> None:
    async with open_contest() as intake:
        set_hour(intake, 0)
        await intake.commands.contests.register(ADA, SLUG, HAND)
        tick = timedelta(microseconds=1)
        for hour, before, after in ((1, "contest_closed", ""), (4, "", "contest_closed")):
            for shift, expected in ((-tick, before), (timedelta(), after)):
                set_hour(intake, hour)
                intake.at += shift
                assert (
                    await refusal(submit(intake, ADA)) if expected else await accepted(intake)
                ) == expected


async def accepted(intake: IntakeHarness) -> str:
    """Submit as ada, which is accepted at the instant of the clock."""
    await submit(intake, ADA)
    at: datetime = intake.log.since(0)[-1].envelope.at
    assert at == intake.at
    return ""


async def test_a_repeated_decision_changes_nothing() -> None:
    async with open_contest() as intake:
        contests, olga = intake.commands.contests, organiser(intake)
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, HAND)

        async def disqualify() -> DecisionResult:
            return await contests.moderate(olga, SLUG, "disqualify", ADA.id, "r")

        assert (await disqualify()).event == "ContestDisqualified"
        assert (await disqualify()).event is None
