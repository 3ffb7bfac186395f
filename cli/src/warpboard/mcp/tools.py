"""Every tool: its name, what it tells a model about itself, what it takes and what it answers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from warpboard.mcp import asks, boards, locally, results, tasks, tells, trying
from warpboard.mcp.hands import Hands


@dataclass(frozen=True)
class Tool:
    """One tool; `is_reading` if it changes nothing on the platform, `is_slow` if it waits."""

    run: Callable[[Hands, Any], Awaitable[msgspec.Struct]]
    ask: type[asks.Ask]
    tell: type[tells.Tell]
    about: str
    is_reading: bool = True
    is_slow: bool = False

    @property
    def name(self) -> str:
        """What a model calls it by."""
        return self.run.__name__


def tools() -> dict[str, Tool]:
    """Every tool by its name, in the order in which one comes to need them."""
    return {one.name: one for one in (*_problems(), *_trying(), *_results(), *_standing())}


def _problems() -> tuple[Tool, ...]:
    return (
        Tool(
            tasks.list_problems,
            asks.ListProblems,
            tells.Problems,
            "List the problems you can write kernels for, with their GPU types and deadlines.",
        ),
        Tool(
            tasks.read_task,
            asks.ReadTask,
            tells.Task,
            "Read all you need to solve a problem: statement, reference, the starter file to "
            "begin with, rules, cases, GPU types and time budgets.",
        ),
    )


def _trying() -> tuple[Tool, ...]:
    return (
        Tool(
            trying.submit,
            asks.Submit,
            tells.Submitted,
            "Submit a kernel and get its number at once; call follow next. Take mode test until "
            "it is right, then benchmark, and ranked only when it beats your best.",
            is_reading=False,
        ),
        Tool(
            trying.follow,
            asks.Follow,
            tells.Followed,
            "Wait for a submission to end, at most wait_s seconds, and get what happened to it "
            "since `after`; call it again with next_after until is_over.",
            is_slow=True,
        ),
        Tool(
            trying.cancel,
            asks.Cancel,
            tells.Cancelled,
            "Let your submission end without a verdict; its quota comes back if no run had begun.",
            is_reading=False,
        ),
        Tool(
            locally.run_locally,
            asks.RunLocally,
            tells.Ran,
            "Run a kernel on this machine's CPU in the platform's own harness: no quota, no "
            "queue, but no GPU and no score that counts.",
            is_slow=True,
        ),
    )


def _results() -> tuple[Tool, ...]:
    return (
        Tool(
            results.read_result,
            asks.ReadResult,
            tells.Result,
            "Read how a submission ended: verdict, failing cases with messages and wrong "
            "elements, times with intervals, rank or why it has none.",
        ),
        Tool(
            results.read_log,
            asks.ReadLog,
            tells.Text,
            "Read what a submission printed, its compiler's messages included.",
        ),
        Tool(
            results.read_profile,
            asks.ReadProfile,
            tells.Text,
            "Read the report of a submission of mode profile as text, to see where time goes.",
        ),
        Tool(
            results.compare,
            asks.Compare,
            tells.Compared,
            "Compare two submissions: source diff and each case's ratio of times with its "
            "interval; a ratio whose interval holds 1 is no difference.",
        ),
    )


def _standing() -> tuple[Tool, ...]:
    return (
        Tool(
            boards.leaderboard,
            asks.Leaderboard,
            tells.Boards,
            "Show a problem's leaderboards, best first: the times to beat.",
        ),
        Tool(
            boards.my_submissions,
            asks.MySubmissions,
            tells.Mine,
            "List your own submissions, newest first, with verdicts and scores.",
        ),
        Tool(
            boards.quota,
            asks.Quota,
            tells.Quotas,
            "Show how many submissions you have left, and until when.",
        ),
    )
