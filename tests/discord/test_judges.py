"""The judges are judged: each body that Discord refuses, and who of them must refuse it."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from discord_sim import shapes
from discord_sim.documents import Validators
from discord_sim.rules import check_commands, check_message
from discord_sim.simulator import Simulator
from tests.discord.raw import Raw, RawAnswer, raw
from tests.discord.refused import DOCUMENT, LINT, RULES, Case, command, every_case, option

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asking(validators: Validators) -> AsyncIterator[Raw]:
    """A client of a simulator with all judges."""
    async with Simulator(validators) as sim, raw(sim) as client:
        yield client


async def _sent(asking: Raw, case: Case) -> RawAnswer:
    """Send a body where it belongs."""
    sim = asking.sim
    text, forum = (sim.guild.add_channel("x", kind)["id"] for kind in (shapes.TEXT, shapes.FORUM))
    if case.where in ("modal", "auto"):
        return await asking.answer(asking.begun(4 if case.where == "auto" else 2), case.body)
    if case.where == "hook":
        begun = asking.begun()
        await asking.answer(begun, {"type": 4, "data": {"content": "hi"}})
        return await asking("POST", f"/webhooks/{sim.application_id}/{begun.token}", case.body)
    guild = f"/applications/{sim.application_id}/guilds/{sim.guild.id}/commands"
    method, path = {
        "message": ("POST", f"/channels/{text}/messages"),
        "thread": ("POST", f"/channels/{text}/threads"),
        "post": ("POST", f"/channels/{forum}/threads"),
        "commands": ("PUT", guild),
    }[case.where]
    return await asking(method, path, case.body)


@pytest.mark.parametrize("case", every_case(), ids=lambda case: case.name)
async def test_bodies_that_discord_refuses_are_refused(
    asking: Raw, case: Case, request: pytest.FixtureRequest
) -> None:
    if case.judge != RULES:
        request.getfixturevalue("documents")
    record = asking.sim.record
    record.lints.clear()
    answer = await _sent(asking, case)
    violations = record.take_violations()
    if case.judge == LINT:
        assert answer.status == 200
        assert record.lints == {"execute_webhook: contnet"}
        return
    assert answer.status == 400, answer.body
    assert answer.body["code"] in (50035, 50006)
    assert len(violations) == 1
    # The rules in prose have names; the document's are words of JSON Schema.
    is_prose = re.search(r"\[[A-Z][A-Z_0-9]+\]|50006", violations[0]) is not None
    assert is_prose == (case.judge != DOCUMENT), violations
    assert not record.own_faults


async def test_a_refusal_names_the_field_as_discord_does(asking: Raw) -> None:
    body = [command(options=[option("Wrong"), option("right")])]
    answer = await _sent(asking, Case("", "commands", body, ""))
    asking.sim.record.take_violations()
    [told] = answer.body["errors"]["0"]["options"]["0"]["name"]["_errors"]
    assert told == {
        "code": "APPLICATION_COMMAND_INVALID_NAME",
        "message": "Command name is invalid",
    }


async def test_valid_bodies_are_accepted() -> None:
    assert not check_commands([command(options=[option("a", required=True), option("b")])])
    assert not check_message({"content": "x" * 2000, "embeds": [{"title": "t"}]}, 0, 10)


async def test_an_unknown_operation_is_the_bots_fault(asking: Raw, documents: Validators) -> None:
    assert documents.document is not None
    assert (await asking("GET", "/leaderboards")).status == 404
    [violation] = asking.sim.record.take_violations()
    assert "no such operation" in violation
    assert (await asking("GET", f"/channels/{asking.sim.guild.id}/invites")).status == 501
    assert asking.sim.record.own_faults.pop() == "list_channel_invites is not simulated"
