"""The class in the queue of a submission: `contest` while the window of its contest is open."""

from datetime import timedelta

import pytest

from ingest.problems import commands
from ingest.problems.commands import LeaderboardChange
from shared.events import SubmissionFinished
from tests.ingest.taking_in import T0, IntakeHarness, open_intake
from tests.support.door import Door, taken_in

pytestmark = pytest.mark.server
DEADLINE = T0 + timedelta(hours=1)
LOST = SubmissionFinished(outcome="infra_failed", is_eligible=False, code="device", reason="")


async def change(intake: IntakeHarness, **fields: object) -> None:
    """Change the leaderboard copy as an operator."""
    command = commands.Change("r", is_forced=True, **fields)  # type: ignore[arg-type]
    request = LeaderboardChange("copy", command, is_operator=True)
    await intake.commands.boards.change(request, "operator:olga")


def classes(intake: IntakeHarness) -> list[str]:
    """Return the class of each accepted submission, one for each request."""
    return [fact.class_ for _, _, fact in taken_in(intake.log)][::2]


@pytest.mark.feature("N20")
async def test_a_submission_to_a_contest_has_its_class_until_the_deadline() -> None:
    async with open_intake() as intake:
        await intake.submit()
        await change(intake, contest="Winter", has_deadline=True, deadline_at=DEADLINE)
        await intake.submit()
        intake.advance(minutes=59, seconds=59)
        await intake.submit()
        intake.advance(seconds=1)
        # An operator may submit for a participant after the deadline.
        await intake.submit(operator="olga")
        assert classes(intake) == ["practice", "contest", "contest", "practice"]


async def test_a_contest_without_a_deadline_stays_open_until_the_problem_leaves_it() -> None:
    async with open_intake() as intake:
        await change(intake, contest="Winter")
        intake.advance(days=90)
        await intake.submit()
        await change(intake, contest="")
        await intake.submit()
        assert classes(intake) == ["contest", "practice"]


async def test_a_retry_has_the_class_of_its_own_time(door: Door) -> None:
    number = await door.number()
    await door.finish(number, LOST)
    answer = await door.admin("PUT", "leaderboards/copy", contest="Winter", reason="r")
    assert answer.status_code == 200, answer.text
    answer = await door.admin("POST", f"submissions/{number}/retry", reason="it was lost")
    assert answer.status_code == 201, answer.text
    assert [fact.class_ for _, _, fact in taken_in(door.log)] == ["practice", "contest"]
