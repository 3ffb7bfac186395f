"""How participants are told on Discord: what they choose, and whom the edge finds by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ingest.domain import preferences
from ingest.domain.callers import Caller
from ingest.service.decisions import By, Decisions
from ingest.service.gate import AccessFeed
from ingest.service.ports import Ports
from shared import subjects
from shared.errors import Refused
from shared.events import RejudgePreviewed, RejudgeRequested, SubmissionReceived

DISCORD = "discord"


class Addressee(NamedTuple):
    """A participant, who they are on Discord, and how they want to be told."""

    account: str
    discord: str | None
    preferences: Mapping[str, str]


class Owned(NamedTuple):
    """A submission by what people call it, and whose it is."""

    number: int
    received: SubmissionReceived
    owner: Addressee


class Rejudged(NamedTuple):
    """A rejudge: what was asked for, and how many results it changes."""

    requested: RejudgeRequested
    changed_count: int


@dataclass(frozen=True)
class Preferences:
    """What is asked about preferences, by participants and by the edge."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    def of(self, account: str | None) -> dict[str, str]:
        """How somebody is told; None is somebody who has no account yet. Errors: Failed."""
        self.feed.now()
        return self.feed.choices.of(account or "")

    async def choose(self, caller: Caller, wanted: Mapping[str, str]) -> dict[str, str]:
        """Be told so from now on; how one is told then. Errors: Refused; Failed."""
        agg, by = subjects.account(caller.id), By(caller.actor, caller.id)
        command = preferences.Choose(wanted)
        made = await self.decisions.make(agg, preferences.preferences, command, by)
        await self.feed.reach(made.seq)
        return self.of(caller.id)

    async def addressee(self, account: str) -> Addressee:
        """Somebody by their account; who there is not is on no Discord. Errors: Failed."""
        known = await self.ports.people.identities(account)
        found = [one.subject for one in known if one.provider == DISCORD]
        return Addressee(account, found[0] if found else None, self.of(account))

    async def wishing(self, preference: str) -> list[Addressee]:
        """All who chose something else than what is usual. Errors: Failed."""
        self.feed.now()
        return [await self.addressee(one) for one in self.feed.choices.who(preference)]

    async def owner(self, submission: str) -> Owned:
        """Whose a submission is, by its id. Errors: Refused `unknown_submission`; Failed."""
        for one in await self.ports.log.history(subjects.submission(submission)):
            if isinstance(one.fact, SubmissionReceived):
                return Owned(one.seq, one.fact, await self.addressee(one.fact.account))
        raise Refused("unknown_submission", f"there is no submission {submission!r}", "id")

    async def rejudge(self, rejudge: str) -> Rejudged:
        """What a rejudge is about. Errors: Refused `unknown_rejudge`; Failed."""
        found: Rejudged | None = None
        for one in await self.ports.log.history(subjects.rejudge(rejudge)):
            match one.fact:
                case RejudgeRequested() as requested:
                    found = Rejudged(requested, 0)
                case RejudgePreviewed(changed_count=count) if found is not None:
                    found = found._replace(changed_count=count)
        if found is None:
            raise Refused("unknown_rejudge", f"there is no rejudge {rejudge!r}", "id")
        return found
