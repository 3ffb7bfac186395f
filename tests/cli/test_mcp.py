"""`warpboard mcp` against a platform: what an agent does from a task to the leaderboard."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from tests.cli.mcp_client import call_failing_tool, call_tool, client, follow_to_end, server_pids
from tests.support.people import HONEST
from tests.support.platform import Running
from tests.support.waits import eventually

pytestmark = [pytest.mark.long, pytest.mark.server, pytest.mark.timeout(240)]

WRONG = HONEST.replace("output.copy_(source)", "output.copy_(source + 1); print('x' * 3000)")
SLOW = "import time\ntime.sleep(3)\n" + HONEST


async def submit(agent: Client, source: str, mode: str, gpu: str = "CPU", parent: int = 0) -> int:
    """The number of a kernel submitted for one GPU type."""
    result = await call_tool(
        agent, "submit", problem="identity", source=source, mode=mode, gpus=[gpu], parent=parent
    )
    (receipt,) = result["submissions"]
    return int(receipt["number"])


@pytest.mark.feature("P26")
async def test_an_agent_goes_from_the_task_to_the_leaderboard(
    platform: Running, tmp_path: Path
) -> None:
    # Not a name of other tests: a row shows somebody's best kernel, which may be an earlier one.
    async with client(tmp_path, "--folder", platform.folder, "--as", "mia") as agent:
        await check_pages_and_prompt(agent)
        problems = (await call_tool(agent, "list_problems"))["items"]
        assert "identity" in [problem["slug"] for problem in problems]
        task = await call_tool(agent, "read_task", problem="identity", gpus=["CPU"])
        assert "#!POPCORN gpu CPU\n" in task["starter"]["text"]
        assert "reference.py" in {file["name"] for file in task["files"]}
        assert task["problem"]["statement"]

        wrong = await submit(agent, WRONG, "test")
        await follow_to_end(agent, wrong)
        result = await call_tool(agent, "read_result", number=wrong)
        assert (result["verdict"], result["outcome"]) == ("wrong_answer", "failed")
        assert "got" in result["cases"][0]["message"]
        assert result["cases"][0]["mismatches"]

        right = await submit(agent, HONEST, "test")
        await follow_to_end(agent, right)
        assert (await call_tool(agent, "read_result", number=right))["verdict"] == "passed"

        ranked = await submit(agent, HONEST, "ranked", parent=right)
        await follow_to_end(agent, ranked)
        result = await call_tool(agent, "read_result", number=ranked)
        low, high = result["ranking"]["interval_us"]
        assert low <= result["ranking"]["score_us"] <= high
        assert any(case.get("time_us") for case in result["cases"])

        board = await call_tool(agent, "leaderboard", problem="identity", gpu="CPU")
        # Other tests rank the same kernel here.
        ranks = {entry["number"]: entry["rank"] for entry in board["items"]}
        assert ranks[ranked] == result["ranking"]["rank"]
        compared = await call_tool(agent, "compare", a=wrong, b=ranked)
        assert "+    output.copy_(source)" in compared["diff"]
        family = (await call_tool(agent, "read_lineage", number=ranked))["items"]
        assert [(member["number"], member["generation"]) for member in family[:2]] == [
            (right, -1),
            (ranked, 0),
        ]
        parent = family[1]["parents"][0]
        assert (parent["number"], parent["kind"]) == (right, "declared")
        mine = await call_tool(agent, "my_submissions", problem="identity", limit=2)
        assert [submission["number"] for submission in mine["items"]] == [ranked, right]
        next_page = await call_tool(agent, "my_submissions", limit=2, cursor=mine["next_cursor"])
        assert wrong in [submission["number"] for submission in next_page["items"]]


async def test_what_a_kernel_printed_and_its_profile_are_read_bounded(
    platform: Running, tmp_path: Path
) -> None:
    async with client(tmp_path, "--folder", platform.folder, "--as", "bob") as agent:
        loud, profiled = await submit(agent, WRONG, "test"), await submit(agent, HONEST, "profile")
        await follow_to_end(agent, loud)
        log = await call_tool(agent, "read_log", number=loud, end="head", chars_max=500)
        assert log["text"] == "x" * 500
        assert "characters" in log["cut"][0]

        assert "submit with mode profile" in await call_failing_tool(
            agent, "read_profile", number=loud
        )
        await follow_to_end(agent, profiled)
        report = await call_tool(agent, "read_profile", number=profiled)
        assert "copy_" in report["text"]
        (packed,) = [file for file in report["files"] if file.endswith(".gz")]
        message = await call_failing_tool(agent, "read_profile", number=profiled, file=packed)
        assert report["name"] in message


async def test_following_tells_each_event_once_and_reports_progress(
    platform: Running, tmp_path: Path
) -> None:
    async with client(tmp_path, "--folder", platform.folder, "--as", "cleo") as agent:
        number = await submit(agent, SLOW, "test")
        progress_messages: list[tuple[float, str | None]] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            assert total == 50
            progress_messages.append((progress, message))

        arguments = {"number": number, "wait_s": 50}
        result = await agent.call_tool("follow", arguments, progress_callback=on_progress)
        followed: dict[str, Any] = result.structured_content
        assert followed["is_over"]
        places = places_of(followed["events"])
        assert places == sorted(set(places))
        assert [at for at, _ in progress_messages] == sorted(at for at, _ in progress_messages)
        assert any("RunStarted" in (message or "") for _, message in progress_messages)
        assert places_of(await follow_to_end(agent, number)) == places

        remaining = await call_tool(agent, "follow", number=number, after=places[2], wait_s=0)
        assert places_of(remaining["events"]) == places[3:]


async def test_a_server_that_is_killed_costs_no_event_and_no_submission(
    platform: Running, tmp_path: Path
) -> None:
    options = ("--folder", platform.folder, "--as", "dora")
    with contextlib.suppress(ExceptionGroup, MCPError):
        async with client(tmp_path, *options) as agent:
            number = await submit(agent, SLOW, "test")
            first_part = await call_tool(agent, "follow", number=number, wait_s=0.5)
            waiting = asyncio.create_task(
                call_failing_tool(agent, "follow", number=number, wait_s=50)
            )
            await asyncio.sleep(0)
            (server,) = server_pids()
            os.kill(server, signal.SIGKILL)
            with pytest.raises(MCPError):
                await asyncio.wait_for(waiting, 20)
    async with client(tmp_path, *options) as agent:
        remaining = await over_from(agent, number, first_part["next_after"])
        places = places_of([*first_part["events"], *remaining])
        assert places == places_of(await follow_to_end(agent, number))
        kernels = [
            {
                "id": "right",
                "source": "def custom_kernel(data):\n    return data[1].copy_(data[0])\n",
            },
            {"id": "wrong", "source": "def custom_kernel(data):\n    return data[1]\n"},
        ]

        async def evaluate() -> dict[str, Any] | None:
            batch = await call_tool(
                agent, "evaluate_batch", problem="identity", kernels=kernels, gpu="CPU"
            )
            return None if batch["missing"] else batch

        evaluated = await eventually(evaluate, 170)
        assert evaluated is not None
        verdicts = {result["kernel"]: result["verdict"] for result in evaluated["evaluated"]}
        assert verdicts == {"right": "passed", "wrong": "wrong_answer"}
        again = [kernel | {"id": f"{kernel['id']} again"} for kernel in kernels]
        batch = await call_tool(
            agent, "evaluate_batch", problem="identity", kernels=again, gpu="CPU"
        )
        assert [result["is_cached"] for result in batch["evaluated"]] == [True, True]
        mine = await call_tool(agent, "my_submissions")
        assert [submission["number"] for submission in mine["items"]] == [number]


def places_of(events: list[str]) -> list[int]:
    """Return the place of each event in the history, with which its line begins."""
    return [int(line.split()[0]) for line in events]


async def over_from(agent: Client, number: int, after: int) -> list[str]:
    """The events after a place, once all is over."""

    async def ended() -> list[str]:
        result = await call_tool(agent, "follow", number=number, after=after, wait_s=20)
        events: list[str] = result["events"]
        return events if result["is_over"] else []

    return await eventually(ended, 60)


async def test_a_submission_is_cancelled_and_a_run_here_counts_for_nothing(
    platform: Running, tmp_path: Path
) -> None:
    async with client(tmp_path, "--folder", platform.folder, "--as", "eve") as agent:
        # No agent has this GPU type, so the submission waits until it is cancelled.
        arguments = {"problem": "identity", "source": HONEST, "mode": "test", "gpus": ["H100"]}
        refusal = await call_failing_tool(agent, "submit", **arguments)
        assert "no agent with H100 is alive" in refusal
        assert "wait_for_agent true" in refusal
        quota = await call_tool(agent, "quota")
        assert quota["open_submissions"] == {"used": 0, "limit": 100}
        result = await call_tool(agent, "submit", **arguments, wait_for_agent=True)
        (receipt,) = result["submissions"]
        assert "no agent with H100 is alive" in receipt["warning"]
        number = receipt["number"]
        await call_tool(agent, "cancel", number=number, reason="the wrong file")
        await follow_to_end(agent, number)
        assert (await call_tool(agent, "read_result", number=number))["outcome"] == "cancelled"
        assert "read_result" in await call_failing_tool(agent, "cancel", number=number)

        file = tmp_path / "kernel.py"
        file.write_text(WRONG)

        async def run_file() -> dict[str, Any] | None:
            arguments = {"problem": "identity", "path": str(file), "within_s": 50}
            result = await agent.call_tool("run_locally", arguments)
            content: dict[str, Any] | None = result.structured_content
            return None if result.is_error else content

        # On a busy machine a first run may take longer than a client may wait for one.
        ran = await eventually(run_file, 170)
        assert ran is not None
        assert ran["result"]["verdict"] == "wrong_answer"
        assert ran["result"]["cases"]
        message = await call_failing_tool(
            agent,
            "run_locally",
            problem="identity",
            source="import time\ntime.sleep(60)",
            within_s=2,
        )
        assert "within_s" in message
        mine = await call_tool(agent, "my_submissions")
        assert [submission["number"] for submission in mine["items"]] == [number]
        quota = await call_tool(agent, "quota", problem="identity", gpu="CPU")
        assert quota["items"] == []  # a local platform limits nobody


async def check_pages_and_prompt(agent: Client) -> None:
    """Check that problems are pages, and that the prompt tells the loop."""
    pages = {str(resource.uri) for resource in (await agent.list_resources()).resources}
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
    rendered = await agent.get_prompt(prompt.name, {"problem": "identity"})
    assert "`identity`" in str(rendered.messages[0].content)
    with pytest.raises(MCPError, match="name the problem"):
        await agent.get_prompt(prompt.name, {})
