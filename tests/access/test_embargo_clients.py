"""Our own clients show nothing early: the command line, and the MCP server in its own process."""

import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.access.command_process import CommandProcess, open_command_process
from tests.access.embargoed_contest import (
    DASH,
    SECOND,
    SLUG,
    SPRINT,
    STAGES,
    EmbargoedContest,
    Stage,
    open_embargoed_contest,
)
from tests.access.judging import Judge
from tests.cli.mcp_client import client
from tests.support.chance import seeds
from tests.support.serving import serve_app
from warpboard.terminal.program import list_summaries

pytestmark = [pytest.mark.server, pytest.mark.long]

# A contestant, a rival, somebody who takes part in nothing, and an organiser, who sees all.
NAMES = ("owner", "rival", "participant", "olga")
# Each uses so many commands and tools at each side of a border.
COMMANDS, CALLS = 3, 3
# At these hours a freeze ends, ranks are hidden, and everything is shown.
HOURS = (3, 4, 9)
# Commands that read what is on the platform, by their words; {a} and {b} are submissions.
READS: Sequence[str] = (
    *("submission list", "submission show {a}", "submission show {a} --json"),
    *("submission status {a}", "submission source {a}", "submission logs {a}"),
    *("submission diff {a} {b}", "submission diff {a} {b} --json", "submission lineage {a}"),
    *("submission trace {a}", "submission flashinfer-trace {a}", "submission export"),
    *("submission queue", "submission quota", "evaluation list", "evaluation show nothing"),
    *("leaderboard list", "leaderboard list --json", "leaderboard show {problem}"),
    *("leaderboard show {problem} --json", "leaderboard history", "leaderboard cases {problem}"),
    *("leaderboard records {problem}", "leaderboard rating", "leaderboard fast-p {problem}"),
    *(
        "leaderboard milestones",
        "leaderboard practice {problem}",
        "leaderboard settings {problem}",
        "problem list",
    ),
    *("problem show {problem}", "problem show {problem} --json", "problem consent {problem}"),
    *("problem held", "problem baseline list {problem}", "problem rejudge list"),
    *("problem rejudge show nothing", "problem eval-code {problem}", "contest list"),
    *("contest show {contest}", "contest show {contest} --json", "contest contestants {contest}"),
    *("contest standing {contest}", "contest standing {contest} --json"),
    *("contest standing {contest} --round qualifier", "contest results {contest}"),
    *("archive search {problem}", "archive search --like-submission {a}"),
)
# The groups whose commands are above, but for those that change something or run here.
GROUPS = ("submission", "leaderboard", "problem", "contest", "archive", "evaluation")
NOT_READING = (
    *("submission cancel", "submission delete", "submission appeal", "evaluation cancel"),
    *("evaluation submit", "leaderboard join", "leaderboard edit", "problem new"),
    *("problem create", "problem check", "problem publish", "problem import-kernelbench"),
    *("problem baseline run", "problem hold", "problem release", "problem rejudge start"),
    *("problem rejudge apply", "problem rejudge discard", "archive build"),
    *("contest register", "contest withdraw", "contest declare", "contest team create"),
    *("contest team join", "contest team leave", "contest team code", "contest team captain"),
    *("contest init", "contest check", "contest publish", "contest update", "contest invite"),
    *("contest finalists", "contest review", "contest confirm", "contest question"),
    *("contest accept", "contest disqualify", "contest restore"),
)
# This tool runs a kernel here; it reads a problem as `read_task` does.
NOT_CALLED = "run_locally"


def check_complete() -> None:
    """Check that each command of these groups has arguments or a reason."""
    words = {words for words in list_summaries() if words.split()[0] in GROUPS}
    # A group is no command.
    leaves = {it for it in words if not any(other.startswith(f"{it} ") for other in words)}
    missing = [it for it in leaves if not any(f"{read} ".startswith(f"{it} ") for read in READS)]
    assert set(missing) == set(NOT_READING), "give each of these arguments, or a reason"


@asynccontextmanager
async def open_servers(
    contest: EmbargoedContest, url: str, folder: Path
) -> AsyncIterator[dict[str, Client]]:
    """Start an MCP server for each caller, which goes on while phases begin."""
    async with AsyncExitStack() as stack:
        servers = {}
        for name in NAMES:
            (home := folder / name).mkdir()
            token = token_of(contest, name)
            server = client(home, WARPBOARD_URL=url, WARPBOARD_TOKEN=token)
            servers[name] = await stack.enter_async_context(server)
        yield servers


def token_of(contest: EmbargoedContest, name: str) -> str:
    """Return the token of a caller."""
    return contest.ways.people[name].headers["Authorization"].removeprefix("Bearer ")


@dataclass
class Using:
    """Uses both clients as some callers."""

    contest: EmbargoedContest
    url: str
    servers: dict[str, Client]
    commands: CommandProcess
    chance: random.Random
    judge: Judge = field(default_factory=Judge)

    def values(self) -> dict[str, Any]:
        """Return values of arguments by name."""
        numbers = list(self.contest.numbers.values())
        a, b = self.chance.choice(numbers), self.chance.choice(numbers)
        problem = self.chance.choice([SPRINT, DASH])
        return {
            "a": a,
            "b": b,
            "number": a,
            "like": a,
            "problem": problem,
            "contest": SLUG,
            "words": SPRINT,
            "gpu": "CPU",
            "limit": 50,
            "wait_s": 1,
            "after": 0,
        }

    async def use(self, stage: Stage) -> None:
        """Use some commands and tools as each caller."""
        for name in NAMES:
            for words in self.chance.sample(READS, COMMANDS):
                await self.run(name, words, stage)
            await self.call_some(name, stage)

    async def run(self, name: str, words: str, stage: Stage) -> None:
        """Run a command as a caller."""
        arguments = words.format(**self.values()).split()
        environ = {"WARPBOARD_URL": self.url, "WARPBOARD_TOKEN": token_of(self.contest, name)}
        output = await self.commands.run(*arguments, **environ)
        is_standing = words.startswith(("contest standing", "contest show"))
        self.search(output, words, name, stage, is_standing=is_standing)

    async def call_some(self, name: str, stage: Stage) -> None:
        """Call some tools that read, as a caller."""
        server = self.servers[name]
        tools = [
            tool
            for tool in (await server.list_tools()).tools
            if tool.annotations is not None
            and tool.annotations.read_only_hint
            and tool.name != NOT_CALLED
        ]
        for tool in self.chance.sample(tools, CALLS):
            values, required = self.values(), tool.input_schema.get("required", ())
            names = [it for it in tool.input_schema["properties"] if it in values]
            assert set(required) <= set(names), f"give {tool.name} its arguments: {required}"
            if tool.name == "search_archive":
                names.remove(self.chance.choice(["words", "like"]))
            arguments = {it: values[it] for it in names}
            result = await server.call_tool(tool.name, arguments)
            text = "\n".join(getattr(content, "text", "") for content in result.content)
            text += json.dumps(result.structured_content)
            is_standing = tool.name == "read_contest"
            self.search(text, f"mcp {tool.name}", name, stage, is_standing=is_standing)

    def search(
        self, text: str, surface: str, name: str, stage: Stage, *, is_standing: bool
    ) -> None:
        """Search what a client showed."""
        found = self.judge.find(text)
        self.judge.judge(found, surface, name, stage, is_standing=is_standing)


@pytest.mark.feature("N14")
@pytest.mark.timeout(300)
@seeds(1)
async def test_our_own_clients_show_no_secret_before_its_phase(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    check_complete()
    async with (
        open_embargoed_contest(postgres_dsn, monkeypatch, is_connected=True) as contest,
        serve_app(contest.ways.door.app) as (url, _),
        open_servers(contest, url, tmp_path) as servers,
        open_command_process() as commands,
    ):
        using = Using(contest, url, servers, commands, random.Random(seed))
        for stage, following in pairwise(STAGES):
            await contest.receive(stage.hour, following.hour)
            if following.hour not in HOURS:
                continue
            contest.set_hour(following.hour, -SECOND)
            await using.use(stage)
            contest.set_hour(following.hour)
            await using.use(following)
            using.judge.check()
        # The test can fail: both clients tell scores to those who may read them.
        told = using.judge.told
        assert len([it for it in told if it.startswith("mcp ")]) >= 3, sorted(told)
        assert len(told) >= 8, sorted(told)
