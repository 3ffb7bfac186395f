"""A submission by its number, as its own history tells it."""

from collections.abc import Sequence
from typing import NamedTuple

from ingest.domain.access import Access
from ingest.domain.callers import Caller, check_problem
from ingest.service.ports import Ports
from shared import subjects
from shared.errors import Failed, Refused
from shared.events import Fact, SubmissionReceived


class Numbered(NamedTuple):
    """A submission that somebody decides about."""

    id: str
    account: str
    problem: str
    facts: Sequence[Fact]


async def by_number(ports: Ports, number: int) -> Numbered:
    """The submission with this number. Errors: Refused `unknown_submission`; Failed."""
    submission = await ports.lookups.submission(number)
    history = await ports.log.history(subjects.submission(submission))
    if not history or history[0].seq != number:
        raise Failed(f"the read models and the log do not agree on submission {number}; ask again")
    first = history[0].fact
    assert isinstance(first, SubmissionReceived), "a number is the sequence of the first event"
    return Numbered(submission, first.account, first.problem, [event.fact for event in history])


async def own_by_number(ports: Ports, number: int, caller: Caller, access: Access) -> Numbered:
    """The caller's own submission. Errors: Refused, `not_yours` among them; Failed.

    What lies on a leaderboard that the caller may not see is not there.
    """
    found = await by_number(ports, number)
    if found.account == caller.account:
        check_problem(caller, found.problem)
        return found
    try:
        access.check_sees(caller, found.problem)
    except Refused as refused:
        raise unknown(number) from refused
    raise Refused("not_yours", f"submission {number} is another participant's", "number")


def unknown(number: int) -> Refused:
    """What is said of a submission that is not there, or not for who asks."""
    return Refused("unknown_submission", f"there is no submission {number}", "number")
