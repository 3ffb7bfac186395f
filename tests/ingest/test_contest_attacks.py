"""What hostile participants, captains and organisers try in a contest, and what stops them."""

from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from ingest.contests import service
from ingest.contests.routes import TeamName
from ingest.contests.service import ContestCommands
from ingest.identity.scopes import STAFF_SCOPES
from ingest.problems.commands import Change, LeaderboardChange
from shared import events, subjects
from shared.contests.definition import ContestPlace
from shared.errors import Refused
from tests.ingest.taking_in import ADA, ANN, T0, IntakeHarness
from tests.ingest.test_contests import (
    ANN_CALLER,
    ASSISTED,
    BEN,
    DAN,
    HAND,
    OPERATOR,
    open_contest,
    organiser,
    person,
    refusal,
    set_hour,
    submit,
)
from tests.ingest.test_evaluations import asked
from tests.support.contests import SLUG, contest_fields, contest_upload
from tests.support.door import FILES, publication, taken_in
from tests.support.lives import say
from tests.support.waits import eventually

pytestmark = pytest.mark.server


async def update(intake: IntakeHarness, **changes: object) -> int:
    """Update the contest as its organiser, and return the number of the version."""
    fields = contest_fields(T0 + timedelta(hours=1), **changes)
    upload = contest_upload(fields, is_update=True)
    return (await intake.commands.contests.publish(organiser(intake), upload)).number


async def field_of(awaitable: Awaitable[object]) -> str | None:
    """Return the field that a refusal names."""
    with pytest.raises(Refused) as refused:
        await awaitable
    return refused.value.field


async def test_nobody_both_organises_a_contest_and_takes_part() -> None:
    async with open_contest(organisers=["olga", "dan"]) as intake:
        contests = intake.commands.contests
        dan = await contests.store.find_account("dan")
        set_hour(intake, 0)
        ada = replace(ADA, account=await contests.store.find_account("ada"))
        await contests.register(ada, SLUG, HAND)
        assert await field_of(update(intake, organisers=["olga", "ada"])) == "organisers.1"
        # Who may have read the sources of others cannot take part after stepping down either.
        assert await update(intake, organisers=["olga"]) == 2
        assert await refusal(contests.register(replace(DAN, account=dan), SLUG, HAND)) == (
            "wrong_state"
        )
        await contests.withdraw(ada, SLUG)
        assert await update(intake, organisers=["olga", "ada"]) == 3


async def test_moderators_and_operators_decide_nothing_in_a_contest_that_they_take_part_in() -> (
    None
):
    async with open_contest() as intake:
        contests = intake.commands.contests
        moderator = replace(person("max"), scopes=STAFF_SCOPES | BEN.scopes)
        set_hour(intake, 0)
        for caller in (BEN, moderator):
            await contests.register(caller, SLUG, HAND)
        out = (SLUG, "disqualify", BEN.id, "a rival")
        assert await refusal(contests.moderate(moderator, *out)) == "not_yours"
        fields = contest_fields(T0 + timedelta(hours=1), title="Mine")
        mine = contest_upload(fields, is_update=True)
        assert await refusal(contests.publish(moderator, mine)) == "not_yours"
        await contests.withdraw(moderator, SLUG)
        await contests.moderate(moderator, *out)


async def test_a_team_with_the_name_of_a_person_is_not_taken_for_them() -> None:
    async with open_contest() as intake:
        contests, olga = intake.commands.contests, organiser(intake)
        rival = replace(ADA, account=await contests.store.find_account("ada"))
        set_hour(intake, 0)
        for caller in (rival, BEN):
            await contests.register(caller, SLUG, HAND)
        team = (await contests.create_team(BEN, SLUG, "Ada")).team
        with pytest.raises(Refused, match=f"{team} or {rival.id}"):
            await contests.moderate(olga, SLUG, "disqualify", "ada", "r")
        await contests.moderate(olga, SLUG, "disqualify", team, "r")
        assert await refusal(contests.leave_team(BEN, SLUG, None)) == "disqualified"
        await contests.register(DAN, SLUG, HAND)
        for same in ("ada", "Ada\u200b", "\uff21da"):
            assert await refusal(contests.create_team(DAN, SLUG, same)) == "name_taken"


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\x7f", "\x9f", "\t"])
def test_no_character_of_a_team_name_changes_how_others_are_read(mark: str) -> None:
    names = TypeAdapter[Any](TeamName)
    assert names.validate_python("=1+1 é 队") == "=1+1 é 队"
    for name in (f"{mark}duo", f"d{mark}uo"):
        with pytest.raises(ValidationError):
            names.validate_python(name)


async def test_a_withdrawal_is_no_escape() -> None:
    async with open_contest() as intake:
        contests, olga = intake.commands.contests, organiser(intake)
        set_hour(intake, 0)
        ada = replace(ADA, account=await contests.store.find_account("ada"))
        for caller in (ada, BEN):
            await contests.register(caller, SLUG, HAND)
        set_hour(intake, 2.9)
        await submit(intake, ada, "ranked")
        await contests.withdraw(ada, SLUG)
        # Neither the quota of the phase nor a clean record comes back with a new registration.
        await contests.register(ada, SLUG, HAND)
        await submit(intake, ada, "ranked")
        assert await refusal(submit(intake, ada, "ranked")) == "quota_exceeded"
        await contests.withdraw(ada, SLUG)
        await contests.moderate(olga, SLUG, "disqualify", "ada", "copied")
        assert await refusal(contests.register(ada, SLUG, HAND)) == "disqualified"
        # After the registration an entry stays, so nobody lifts a friend by leaving.
        set_hour(intake, 3)
        assert await refusal(contests.withdraw(BEN, SLUG)) == "contest_closed"


async def test_a_new_team_is_no_new_quota() -> None:
    until = (T0 + timedelta(hours=3, minutes=30)).isoformat()
    async with open_contest(teams={"size_max": 2, "changes_until": until}) as intake:
        contests = intake.commands.contests
        set_hour(intake, 0)
        for caller in (ADA, BEN):
            await contests.register(caller, SLUG, HAND)
        set_hour(intake, 2)
        await submit(intake, ADA, "ranked")
        code = (await contests.create_team(ADA, SLUG, "Duo")).code
        await submit(intake, ADA, "ranked")
        await contests.join_team(BEN, SLUG, code)
        assert await refusal(submit(intake, BEN, "ranked")) == "quota_exceeded"
        for name in ("Again", "Once more"):
            await contests.leave_team(ADA, SLUG, None)
            assert await refusal(submit(intake, ADA, "ranked")) == "quota_exceeded"
            await contests.create_team(ADA, SLUG, name)
            assert await refusal(submit(intake, ADA, "ranked")) == "quota_exceeded"
        balances = await contests.phase_balances(ADA, "")
        assert [(it.bucket, it.used, it.remaining) for it in balances] == [
            ("copy.main.ranked", 2, 0)
        ]


async def test_an_evaluation_avoids_no_quota() -> None:
    async with open_contest() as intake:
        contests, evaluations = intake.commands.contests, intake.commands.evaluations
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, HAND)
        set_hour(intake, 1)
        await evaluations.request(asked())
        phases = contest_fields(T0 + timedelta(hours=1))["phases"]
        phases[2]["quotas"] = {"test": 1}
        await update(intake, phases=phases)
        set_hour(intake, 2)
        assert await field_of(evaluations.request(asked())) == "mode"
        # A limit of an operator for a contestant is one, too.
        set_hour(intake, 3)
        await evaluations.request(asked())
        limit = events.QuotaLimitSet(bucket="*.*.test", limit=5, window_s=0.0, reason="r")
        await intake.commands.quotas.limit_contestant(
            (await contests.details(ADA, SLUG)).contest, ADA.id, limit, "operator:root"
        )
        assert await field_of(evaluations.request(asked())) == "mode"


async def test_what_has_begun_keeps_its_rules() -> None:
    async with open_contest() as intake:
        own = {"slug": "copy", "gpu": "CPU"}

        def at(hour: float) -> str:
            return (T0 + timedelta(hours=1 + hour)).isoformat()

        assert await update(intake, problems=[own | {"weight": 2}]) == 2
        assert await update(intake) == 3
        set_hour(intake, 2.5)
        for change, field in (
            ({"weight": 2}, "problems.0.weight"),
            ({"scoring": {"by": "time"}}, "problems.0.scoring"),
            ({"starts": at(2.25)}, "problems.0.starts"),
            # What was received since then would no longer count.
            ({"ends": at(2.25)}, "problems.0.ends"),
        ):
            assert await field_of(update(intake, problems=[own | change])) == field, change
        assert await field_of(update(intake, best_of=1)) == "best_of"
        assert await field_of(update(intake, ties=["fewest"])) == "ties"
        assert await update(intake, problems=[own | {"ends": at(3.5)}]) == 4
        set_hour(intake, 4)
        place = ContestPlace(contestant=ADA.id, division="hand", place=1, points=25.0)
        results = events.ContestResultsProposed(places=[place], as_of_seq=1)
        await say(intake.log, subjects.contest(SLUG), results)
        own["ends"] = at(3.5)
        reopened = {"kind": "freeze", "starts": at(3), "ranks": "frozen", "ends": at(4.5)}
        phases = contest_fields(T0 + timedelta(hours=1))["phases"]
        phases[3:] = [reopened]
        again = [own | {"ends": at(4.5)}]
        assert await field_of(update(intake, problems=again, phases=phases)) == "problems.0.ends"
        # One check list less would do.
        assert await field_of(update(intake, problems=[own], podium=1)) == "podium"
        assert await update(intake, problems=[own], prizes="A cake") == 5


async def test_a_contest_does_not_take_back_a_problem_of_another_one() -> None:
    """The organisers of an old contest would read the sources of the new one."""
    async with open_contest() as intake:
        contests: ContestCommands = intake.commands.contests
        set_hour(intake, 5)
        later = contest_fields(T0 + timedelta(hours=7), slug="summer-cup", organisers=["dan"])
        await contests.publish(ANN_CALLER, contest_upload(later))
        set_hour(intake, 20)
        assert await refusal(update(intake, title="Still mine")) in ("not_yours", "scope_missing")
        again = contest_upload(contest_fields(T0 + timedelta(hours=1), title="M"), is_update=True)
        assert (await contests.publish(OPERATOR, again)).number == 2


async def test_authors_of_its_problems_take_no_part_in_a_contest() -> None:
    """They know the hidden sizes, and may hold the submissions of their rivals."""
    async with open_contest() as intake:
        set_hour(intake, 0)
        author = replace(ANN_CALLER, owned=frozenset({"copy"}))
        register = intake.commands.contests.register
        assert await refusal(register(author, SLUG, HAND)) == "wrong_state"
        await register(replace(author, owned=frozenset({"softmax"})), SLUG, HAND)
        # It is ann's problem after all, whatever a client says.
        again = {"slug": "copy", "gpu": "CPU", "weight": 2}
        assert await field_of(update(intake, problems=[again])) == "problems.0.slug"


async def test_a_token_for_other_problems_does_nothing_in_a_contest() -> None:
    async with open_contest() as intake:
        contests = intake.commands.contests
        set_hour(intake, 0)
        await contests.register(replace(BEN, problems=frozenset({"copy"})), SLUG, HAND)
        limited = replace(BEN, problems=frozenset({"softmax"}))
        for command in (
            contests.withdraw(limited, SLUG),
            contests.create_team(limited, SLUG, "Not mine"),
            contests.declare(limited, SLUG, "assisted", {"model": "m"}),
        ):
            assert await refusal(command) == "scope_missing"
        root = replace(OPERATOR, problems=frozenset({"softmax"}))
        assert await refusal(contests.moderate(root, SLUG, "disqualify", BEN.id, "r")) == (
            "scope_missing"
        )


async def test_the_same_declaration_again_answers_no_question() -> None:
    async with open_contest() as intake:
        contests, olga = intake.commands.contests, organiser(intake)
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, ASSISTED)
        await contests.moderate(olga, SLUG, "question", ADA.id, "which model?")
        await contests.declare(ADA, SLUG, "assisted", {"model": " m-1 "})
        (seen,) = await contests.contestants(olga, SLUG)
        assert seen.doubt == "which model?"


async def test_a_declaration_that_nobody_questions_stays_after_the_close() -> None:
    async with open_contest() as intake:
        contests, olga = intake.commands.contests, organiser(intake)
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, ASSISTED)
        set_hour(intake, 3.5)
        await contests.declare(ADA, SLUG, "assisted", {"model": "m-2"})
        set_hour(intake, 4)
        later = {"model": "m-3"}
        assert await field_of(contests.declare(ADA, SLUG, "assisted", later)) == "declaration"
        await contests.moderate(olga, SLUG, "question", ADA.id, "which model?")
        await contests.declare(ADA, SLUG, "assisted", later)


async def test_an_organiser_is_the_account_that_remains_after_a_merge() -> None:
    async with open_contest() as intake:
        contests = intake.commands.contests
        part, into = [await contests.store.open_account(name) for name in ("liv", "live")]
        merged = events.AccountMerged(into=into, undo_until_at=T0 + timedelta(days=7), reason="r")
        await say(intake.log, subjects.account(part), merged)
        await eventually(lambda: contests.feed.rights().account_of(part) == into)
        await update(intake, organisers=["olga", "liv"])
        assert (await contests.details(ADA, SLUG)).contest.organisers[1] == into


async def test_an_author_changes_nothing_of_a_problem_while_its_contest_goes_on() -> None:
    """A new version empties the standing, and a closed GPU type ends the contest."""
    async with open_contest() as intake:
        problems, boards = intake.commands.problems, intake.commands.boards
        newer = publication("copy", FILES | {"reference.py": FILES["reference.py"] + b"# 2\n"})

        async def change_board(**changes: Any) -> None:
            change = LeaderboardChange("copy", Change("r", **changes), is_operator=False)
            await boards.change(change, ANN)

        set_hour(intake, 1.9)
        assert await problems.would_create_version(newer, ANN)
        deadline = Change("r", has_deadline=True, deadline_at=T0 + timedelta(days=9))
        assert await field_of(problems.publish(replace(newer, change=deadline), ANN)) == (
            "deadline_at"
        )
        for hour in (2, 4):
            set_hour(intake, hour)
            assert await refusal(problems.publish(newer, ANN)) == "wrong_state"
            assert await refusal(change_board(gpus=("H100",))) == "wrong_state"
            assert await refusal(change_board(visibility="closed")) == "wrong_state"
            archiving = boards.archive("copy", "r", ANN, is_operator=False)
            assert await refusal(archiving) == "wrong_state"
            await change_board(visibility="public")
        assert await problems.would_create_version(replace(newer, is_operator=True), "operator:o")
        set_hour(intake, 5)
        assert (await problems.publish(newer, ANN)).problem_version == 2


async def test_a_contest_tells_nobody_which_closed_leaderboards_there_are() -> None:
    async with open_contest() as intake:
        hush = replace(publication("hush", FILES), change=Change("r", visibility="closed"))
        await intake.commands.problems.publish(hush, ANN)
        author = replace(ANN_CALLER, account="account-of-zoe")
        reasons = []
        for slug in ("hush", "push"):
            fields = contest_fields(T0, slug="probe", problems=[{"slug": slug, "gpu": "CPU"}])
            upload = contest_upload(fields, is_dry_run=True)
            with pytest.raises(Refused) as refused:
                await intake.commands.contests.publish(author, upload)
            reasons.append((refused.value.code, refused.value.reason.replace(slug, "X")))
        assert reasons[0] == reasons[1]


async def test_nobody_changes_the_division_through_a_team_once_the_registration_is_closed() -> None:
    teams = {"size_max": 2, "changes_until": (T0 + timedelta(hours=6)).isoformat()}
    async with open_contest(teams=teams) as intake:
        contests = intake.commands.contests
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, ASSISTED)
        await contests.register(BEN, SLUG, HAND)
        await contests.register(DAN, SLUG, HAND)
        code = (await contests.create_team(BEN, SLUG, "Duo")).code
        set_hour(intake, 3)
        assert await refusal(contests.join_team(ADA, SLUG, code)) == "contest_closed"
        await contests.join_team(DAN, SLUG, code)


async def test_nobody_moves_the_places_of_others_between_the_close_and_the_results() -> None:
    async with open_contest() as intake:
        contests, submissions = intake.commands.contests, intake.commands.submissions
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, HAND)

        async def withdraw(number: int) -> str | None:
            """Withdraw one, and return the event, or the code of the refusal."""
            try:
                return (await submissions.withdraw(number, ADA, "r")).event
            except Refused as refused:
                return refused.code

        set_hour(intake, 2)
        for mode in ("ranked", "ranked", "test"):
            await submit(intake, ADA, mode)
        first, second, tested = [seq for seq, _, _ in taken_in(intake.log)][-3:]
        set_hour(intake, 3.9)
        assert await withdraw(first) == "SubmissionWithdrawn"
        set_hour(intake, 4)
        assert await withdraw(second) == "under_review"
        assert await withdraw(tested) == "SubmissionWithdrawn"
        place = ContestPlace(contestant=ADA.id, division="hand", place=1, points=25.0)
        for kind in (events.ContestResultsProposed, events.ContestResultsConfirmed):
            assert await withdraw(second) == "under_review"
            await say(intake.log, subjects.contest(SLUG), kind(places=[place], as_of_seq=1))
        assert await withdraw(second) == "SubmissionWithdrawn"


async def test_many_contests_hide_none_from_a_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_contest() as intake:
        contests = intake.commands.contests
        set_hour(intake, 0)
        await contests.register(ADA, SLUG, HAND)
        monkeypatch.setattr(service, "LISTED_MAX", 0)
        assert await contests.contests_that_bind(ADA.id) == [SLUG]
        assert await contests.listed() == []
