"""Generates docs/endings.md, the page of the endings without a verdict."""

from pathlib import Path

from shared.endings import ENDINGS
from shared.states import STATES

PAGE = Path(__file__).parent / "endings.md"
HEAD = """# How a submission ends

Generated from `shared/src/shared/endings.py` and `states.py` by `make docs`; a test fails when this
page is stale.

An accepted submission (202) ends once: with a verdict about its file, or for one of the reasons on
this page. What can be checked in advance is refused with the request: the log has no event of it,
and the response gives the reason ([in which order](http.md#submitting)).

## States

Each state has a service that must end it, and a limit.

"""
ENDED = """
## Endings without a verdict

`outcome` and `code` are in the event SubmissionFinished. An ending that is not the participant's
own act refunds the quota and asks the participant to submit again, except after `agents_lost`.

"""
LIMITS = """
## Which limits apply to what

| what runs | quota | open submissions (`OPEN_MAX`) | full queue (`QUEUED_MAX`) | its own limit |
|---|---|---|---|---|
| a participant's submission, by any client | yes | yes | yes | 40 in progress at once |
| a submission by an operator for a participant (`POST /admin/submission/…`) | yes | yes | no | |
| a retry by an operator | no | no; it is not counted either | no | once per submission |
| a baseline | no | no | no | one open run for each baseline, GPU type and version |
| a rejudge | no | no | no | 400 submissions per rejudge |
| a duel or confirmation | no | no | no | one for each pair or podium run; it waits last |
| a noisy run that is timed again | no | no | no | three attempts; it waits last |
| a canary | no | no | no | one at a time for each agent |

The platform's own work never ends a participant's submission; the submission only waits longer.
"""
BOUNDS = {
    "acceptance": "the deadline that was set at acceptance",
    "lease": "the time that an agent has to start",
    "decision": "five minutes after the deadline, or after the verdict if that is later",
}


def page() -> str:
    """Return the text of the page."""
    states = [
        f"| `{state.name}` | {state.owner} | {BOUNDS[state.bound]} |\n" for state in STATES.values()
    ]
    endings = [
        f"| `{end.outcome}` | `{code}` | {end.writer} | {end.cause} | {end.prevented} |\n"
        for code, end in ENDINGS.items()
    ]
    return "".join(
        (
            *(HEAD, "| state | responsible | limit |\n|---|---|---|\n", *states),
            *(ENDED, "| outcome | code | found by | cause | why not before acceptance |\n"),
            *("|---|---|---|---|---|\n", *endings, LIMITS),
        )
    )


def pages() -> dict[Path, str]:
    """Return the page and its text."""
    return {PAGE: page()}
