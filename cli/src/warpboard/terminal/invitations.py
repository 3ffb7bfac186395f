"""Creates the participants of a class from a roster, with a login link for each."""

import csv
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import click
from click import IntRange

from shared.api.accounts import (
    OpenedAccount,
    Participant,
    ParticipantNames,
    PasswordResetLink,
)
from shared.api.queues import DecisionResponse
from shared.errors import Refused
from shared.presentation.units import count_text
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.roster import ROLES, Limit, Person, parse_limit, parse_roster, wrong_rows
from warpboard.service.answers import retry_until_available
from warpboard.terminal import options
from warpboard.terminal.options import api_command

if TYPE_CHECKING:
    from _csv import Writer

# The platform's rate limit slows a large class down: each request waits for its turn.
REQUEST_S_MAX = 300.0
NAMES_PER_PAGE = 1000
T = TypeVar("T")
FIELDS = ("name", "role", "state", "link", "valid_until")


class LimitOption(click.ParamType[Limit]):
    """A limit on submissions, such as `ranked=10/day`."""

    name = "limit"

    def convert(
        self, value: str | Limit, param: click.Parameter | None, ctx: click.Context | None
    ) -> Limit:
        """Return the limit if it is valid."""
        if isinstance(value, Limit):
            return value
        try:
            return parse_limit(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@dataclass(frozen=True)
class Invitations:
    """Creates participants one after the other; each step may be repeated."""

    api: Api
    reason: str
    valid_days: int

    async def find_known(self) -> set[str]:
        """Return the names of all participants."""
        names, after = set[str](), ""
        while True:
            request = partial(
                self.api.get,
                ParticipantNames,
                *("admin", "participants"),
                after=after,
                limit=NAMES_PER_PAGE,
            )
            page = (await self._ask(request)).value
            names |= {item.name for item in page.items}
            # Pages are ordered by id, so one that does not come later is the last.
            if page.next_after is None or page.next_after <= after:
                return names
            after = page.next_after

    async def is_complete(self, name: str) -> bool:
        """Return whether a participant can log in already, so that nothing is left to do."""
        path = ("admin", "participants", name)
        details = (await self._ask(partial(self.api.get, Participant, *path))).value
        return bool(details.identities or details.tokens)

    async def create(self, person: Person) -> PasswordResetLink:
        """Create a participant with role and limits; the link comes last and completes it."""
        body: dict[str, object] = {"name": person.name, "reason": self.reason}
        path = ("admin", "participants")
        await self._ask(partial(self.api.act, OpenedAccount, "POST", *path, body=body))
        if person.role != ROLES[0]:
            body = {"role": person.role, "reason": self.reason}
            role_path = (*path, person.name, "roles")
            await self._ask(partial(self.api.act, DecisionResponse, "POST", *role_path, body=body))
        for limit in person.limits:
            body = {
                "participant": person.name,
                "bucket": limit.bucket,
                "limit": limit.limit,
                "window_s": limit.window_s,
                "reason": self.reason,
            }
            quota_path = ("admin", "quota")
            await self._ask(partial(self.api.act, DecisionResponse, "PUT", *quota_path, body=body))
        body = {"reason": self.reason, "valid_days": self.valid_days}
        link_path = (*path, person.name, "password-reset")
        request = partial(self.api.act, PasswordResetLink, "POST", *link_path, body=body)
        return (await self._ask(request)).value

    async def _ask(self, request: Callable[[], Awaitable[T]]) -> T:
        return await retry_until_available(request, REQUEST_S_MAX, lambda _: None)


@api_command(
    'admin participant invite class.csv --output links.csv --reason "a course"',
    parameters=(
        click.argument("file", type=options.FILE),
        click.option(
            "--output", type=options.NEW_FILE, required=True, help="A new CSV file for the links."
        ),
        click.option(
            "--role",
            type=click.Choice(ROLES),
            default=ROLES[0],
            show_default=True,
            help="The role of rows that name none.",
        ),
        click.option(
            *("--limit", "limits"),
            type=LimitOption(),
            multiple=True,
            metavar="LIMIT",
            help="A limit for rows that name none, such as ranked=10/day, H100.test=60/hour or "
            "matmul.H100.ranked=5/week; may be repeated.",
        ),
        click.option(
            "--days",
            "valid_days",
            type=IntRange(1, 60),
            default=14,
            show_default=True,
            help="How long the links are valid.",
        ),
        options.REASON,
    ),
    access=options.OPERATOR,
)
async def invite(
    context: AppContext,
    api: Api,
    *,
    file: Path,
    output: Path,
    role: str,
    limits: Sequence[Limit],
    reason: str,
    valid_days: int,
) -> int:
    """Create the participants in a CSV FILE, and a login link for each.

    Columns: name, and perhaps role and limits (separated by spaces). Every row is checked before
    anyone is created. With a link, which works once, a participant chooses a password and logs in.
    Whoever can log in already stays as they are, so a second run creates only who is missing.
    """
    people = _read_roster(file, role, limits)
    invitations = Invitations(api, reason, valid_days)
    known = await invitations.find_known()
    complete = {
        person.name
        for person in people
        if person.name in known and await invitations.is_complete(person.name)
    }
    with _open_links(output) as (writer, links):
        for person in people:
            if person.name in complete:
                writer.writerow((person.name, "", "exists", "", ""))
                continue
            link = await invitations.create(person)
            row = (person.name, person.role, "created", link.url, link.expires_at.isoformat())
            writer.writerow(row)
            # A link is shown only once: whoever was created is in the file, whatever comes next.
            links.flush()
    created = len(people) - len(complete)
    document = {"created": created, "existed": len(complete), "output": str(output)}
    note = "give each link only to its participant: anyone who has it can log in as them"
    existed = f"; {len(complete)} existed and stay as they are" if complete else ""
    lines = [f"{count_text(created, 'participant')} created, links in {output}{existed}"]
    return context.show(document, lines, note)


def _read_roster(file: Path, role: str, limits: Sequence[Limit]) -> list[Person]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            return parse_roster(lines, role, limits)
    except UnicodeDecodeError as error:
        raise wrong_rows([f"{file} is not UTF-8: {error.reason} at byte {error.start}"]) from error


@contextmanager
def _open_links(output: Path) -> "Iterator[tuple[Writer, TextIO]]":
    """Open a new file that only its owner may read. Raises `Refused` if it exists."""
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        reason = f"cannot create {output}: {error.strerror}"
        raise Refused("bad_output", f"{reason}; nobody was created", "--output") from error
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as links:
        writer = csv.writer(links, lineterminator="\n")
        writer.writerow(FIELDS)
        yield writer, links
