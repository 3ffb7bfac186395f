"""The account of a submission is known until it changes, whichever process changes it."""

from shared import subjects
from shared.event_log import Append, Appender
from shared.events import AccountBanned, AccountUnbanned, Fact
from tests.ingest.taking_in import ADA, CountingByAggregate, IntakeHarness, open_intake
from tests.support.waits import eventually

ACCOUNT = subjects.account(ADA.id)


async def append_elsewhere(intake: IntakeHarness, fact: Fact) -> None:
    """Append a fact about ada as another process does."""
    appender = Appender(intake.log, "operator:olga", lambda: intake.at)
    await appender.append(Append(ACCOUNT, fact, None, "elsewhere", ADA.id))


async def test_an_account_is_read_again_only_after_it_changed() -> None:
    log = CountingByAggregate()
    async with open_intake(log=log) as intake:
        await intake.submit("k1")
        readings = log.readings[ACCOUNT]
        await intake.submit("k2")
        assert log.readings[ACCOUNT] == readings

        folded = intake.commands.feed.folded
        await append_elsewhere(intake, AccountBanned(reason="copied"))
        await eventually(lambda: intake.commands.feed.folded > folded)
        assert await intake.refusal("k3") == "user_banned"


async def test_a_ban_that_another_process_lifted_in_this_moment_refuses_nobody() -> None:
    async with open_intake() as intake:
        await append_elsewhere(intake, AccountBanned(reason="copied"))
        assert await intake.refusal("k1") == "user_banned"
        await append_elsewhere(intake, AccountUnbanned(reason="appealed"))
        assert await intake.submit("k1")
