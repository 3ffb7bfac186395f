"""`warpboard mcp` against a platform: what an agent does from a task to the leaderboard."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from shared.testing import eventually
from tests.cli.talking import client, over, servers, tell, trouble
from tests.support.people import HONEST
from tests.support.platform import Running

pytestmark = [pytest.mark.long, pytest.mark.server, pytest.mark.timeout(240)]

WRONG = HONEST.replace("output.copy_(source)", "output.copy_(source + 1); print('x' * 3000)")
SLOW = "import time\ntime.sleep(3)\n" + HONEST


async def submit(agent: Client, source: str, mode: str) -> int:
    """The number of a kernel submitted for the CPU."""
    found = await tell(agent, "submit", problem="identity", source=source, mode=mode, gpus=["CPU"])
    assert found["mode"] == mode
    (receipt,) = found["submissions"]
    return int(receipt["number"])


async def test_an_agent_goes_from_the_task_to_the_leaderboard(
    platform: Running, tmp_path: Path
) -> None:
    async with client(tmp_path, "--folder", platform.folder, "--as", "ada") as agent:
        problems = (await tell(agent, "list_problems"))["problems"]
        assert "identity" in [problem["slug"] for problem in problems]
        task = await tell(agent, "read_task", problem="identity", gpus=["CPU"])
        assert "#!POPCORN gpu CPU\n" in task["starter"]["text"]
        assert "reference.py" in {one["name"] for one in task["files"]}
        assert task["statement"]

        wrong = await submit(agent, WRONG, "test")
        await over(agent, wrong)
        result = await tell(agent, "read_result", number=wrong)
        assert (result["verdict"], result["outcome"]) == ("wrong_answer", "failed")
        assert "got" in result["failing"][0]["message"]
        assert result["failing"][0]["mismatches"]

        right = await submit(agent, HONEST, "test")
        await over(agent, right)
        assert (await tell(agent, "read_result", number=right))["verdict"] == "passed"

        ranked = await submit(agent, HONEST, "ranked")
        await over(agent, ranked)
        result = await tell(agent, "read_result", number=ranked)
        assert result["ranking"]["rank"] == 1
        low, high = result["interval_us"]
        assert low <= result["score_us"] <= high
        assert result["timed"]

        (board,) = (await tell(agent, "leaderboard", problem="identity", gpu="CPU"))["boards"]
        assert board["entries"][0]["number"] == ranked
        compared = await tell(agent, "compare", a=wrong, b=ranked)
        assert "+    output.copy_(source)" in compared["diff"]
        mine = await tell(agent, "my_submissions", problem="identity", limit=2)
        assert [one["number"] for one in mine["submissions"]] == [ranked, right]
        rest = await tell(agent, "my_submissions", limit=2, cursor=mine["next_cursor"])
        assert wrong in [one["number"] for one in rest["submissions"]]


async def test_what_a_kernel_printed_and_its_profile_are_read_bounded(
    platform: Running, tmp_path: Path
) -> None:
    async with client(tmp_path, "--folder", platform.folder, "--as", "bob") as agent:
        loud, profiled = await submit(agent, WRONG, "test"), await submit(agent, HONEST, "profile")
        await over(agent, loud)
        log = await tell(agent, "read_log", number=loud, end="head", chars_max=500)
        assert log["text"] == "x" * 500
        assert "characters" in log["cut"][0]

        assert "submit with mode profile" in await trouble(agent, "read_profile", number=loud)
        await over(agent, profiled)
        report = await tell(agent, "read_profile", number=profiled)
        assert "copy_" in report["text"]
        (packed,) = [one for one in report["files"] if one.endswith(".gz")]
        said = await trouble(agent, "read_profile", number=profiled, file=packed)
        assert report["name"] in said


async def test_following_tells_each_event_once_and_reports_progress(
    platform: Running, tmp_path: Path
) -> None:
    async with client(tmp_path, "--folder", platform.folder, "--as", "cleo") as agent:
        number = await submit(agent, SLOW, "test")
        said: list[tuple[float, str | None]] = []

        async def told(progress: float, total: float | None, message: str | None) -> None:
            assert total == 50
            said.append((progress, message))

        asked = {"number": number, "wait_s": 50}
        result = await agent.call_tool("follow", asked, progress_callback=told)
        whole: dict[str, Any] = result.structured_content
        assert whole["is_over"]
        places = [one["place"] for one in whole["events"]]
        assert places == sorted(set(places))
        assert [at for at, _ in said] == sorted(at for at, _ in said)
        assert any("RunStarted" in (message or "") for _, message in said)
        assert [one["place"] for one in await over(agent, number)] == places

        rest = await tell(agent, "follow", number=number, after=places[2], wait_s=0)
        assert [one["place"] for one in rest["events"]] == places[3:]


async def test_a_server_that_is_killed_costs_no_event_and_no_submission(
    platform: Running, tmp_path: Path
) -> None:
    options = ("--folder", platform.folder, "--as", "dora")
    with contextlib.suppress(ExceptionGroup, MCPError):
        async with client(tmp_path, *options) as agent:
            number = await submit(agent, SLOW, "test")
            seen = await tell(agent, "follow", number=number, wait_s=0.5)
            waiting = asyncio.create_task(trouble(agent, "follow", number=number, wait_s=50))
            await asyncio.sleep(0)
            (server,) = servers()
            os.kill(server, signal.SIGKILL)
            with pytest.raises(MCPError):
                await asyncio.wait_for(waiting, 20)
    async with client(tmp_path, *options) as agent:
        rest = await over_from(agent, number, seen["next_after"])
        places = [one["place"] for one in (*seen["events"], *rest)]
        assert places == [one["place"] for one in await over(agent, number)]
        mine = await tell(agent, "my_submissions")
        assert [one["number"] for one in mine["submissions"]] == [number]


async def over_from(agent: Client, number: int, after: int) -> list[dict[str, Any]]:
    """The events after a place, once all is over."""

    async def ended() -> list[dict[str, Any]]:
        found = await tell(agent, "follow", number=number, after=after, wait_s=20)
        events: list[dict[str, Any]] = found["events"]
        return events if found["is_over"] else []

    return await eventually(ended, 60)


async def test_a_submission_is_cancelled_and_a_run_here_counts_for_nothing(
    platform: Running, tmp_path: Path
) -> None:
    async with client(tmp_path, "--folder", platform.folder, "--as", "eve") as agent:
        number = await submit(agent, SLOW, "test")
        await tell(agent, "cancel", number=number, reason="the wrong file")
        await over(agent, number)
        assert (await tell(agent, "read_result", number=number))["outcome"] == "cancelled"
        assert "read_result" in await trouble(agent, "cancel", number=number)

        file = tmp_path / "kernel.py"
        file.write_text(WRONG)
        ran = await tell(agent, "run_locally", problem="identity", path=str(file))
        assert ran["verdict"] == "wrong_answer"
        assert ran["failing"]
        said = await trouble(
            agent,
            "run_locally",
            problem="identity",
            source="import time\ntime.sleep(60)",
            within_s=2,
        )
        assert "within_s" in said
        mine = await tell(agent, "my_submissions")
        assert [one["number"] for one in mine["submissions"]] == [number]
        assert (await tell(agent, "quota", problem="identity", gpu="CPU"))["summary"]


async def test_problems_are_pages_and_the_prompt_tells_the_loop(
    platform: Running, tmp_path: Path
) -> None:
    async with client(tmp_path, "--url", platform.url, "--as", "ada") as agent:
        pages = {str(one.uri) for one in (await agent.list_resources()).resources}
        assert "warpboard://problems/identity" in pages
        assert len((await agent.list_resource_templates()).resource_templates) == 2
        starter = await agent.read_resource("warpboard://problems/identity/starter")
        assert "custom_kernel" in str(starter.contents[0])
        page = await agent.read_resource("warpboard://problems/identity")
        assert "reference.py" in str(page.contents[0])
        with pytest.raises(MCPError, match="list_problems"):
            await agent.read_resource("warpboard://problems/nothing")
        with pytest.raises(MCPError, match="there is no page"):
            await agent.read_resource("file:///etc/passwd")

        (prompt,) = (await agent.list_prompts()).prompts
        told = await agent.get_prompt(prompt.name, {"problem": "identity"})
        assert "`identity`" in str(told.messages[0].content)
        with pytest.raises(MCPError, match="say for which problem"):
            await agent.get_prompt(prompt.name, {})
