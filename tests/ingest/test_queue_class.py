"""The class in the queue of a submission: `contest` while it scores in a contest."""

from datetime import timedelta

import pytest

from shared.events import SubmissionFinished
from tests.ingest.taking_in import ADA, T0, IntakeHarness, open_intake
from tests.ingest.test_contests import DIGEST, HAND, OPERATOR
from tests.support.contests import SLUG, contest_fields, contest_upload
from tests.support.door import Door, taken_in

pytestmark = pytest.mark.server
LOST = SubmissionFinished(outcome="infra_failed", is_eligible=False, code="device", reason="")


def classes(intake: IntakeHarness) -> list[str]:
    """Return the class of each accepted submission, one for each request."""
    return [fact.class_ for _, _, fact in taken_in(intake.log)][::2]


@pytest.mark.feature("N20")
async def test_a_submission_has_the_class_of_contests_while_it_scores() -> None:
    async with open_intake() as intake:
        await intake.submit()
        contests = intake.commands.contests
        await contests.store.open_account("olga")
        await contests.publish(OPERATOR, contest_upload(contest_fields(T0)))
        await contests.register(ADA, SLUG, HAND._replace(terms_digest=DIGEST))
        for hour in (1, 2, 3.99):
            intake.at = T0 + timedelta(hours=hour)
            await intake.submit()
        intake.at = T0 + timedelta(hours=4)
        # An operator may submit for a participant after the end.
        await intake.submit(operator="olga")
        assert classes(intake) == ["practice", "practice", "contest", "contest", "practice"]


async def test_a_retry_keeps_the_class(door: Door) -> None:
    number = await door.number()
    await door.finish(number, LOST)
    answer = await door.admin("POST", f"submissions/{number}/retry", reason="it was lost")
    assert answer.status_code == 201, answer.text
    assert [fact.class_ for _, _, fact in taken_in(door.log)] == ["practice", "practice"]
