"""Preferences for notifications on Discord, for participants and for the Discord edge."""

from dataclasses import dataclass

import msgspec
from msgspec import structs

from ingest.decisions import Decisions
from ingest.http.requests import RequestModel
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller, check_unlimited
from ingest.identity.preferences import rules
from ingest.ports import Ports
from shared import subjects
from shared.api.accounts import (
    DeliveryChannel,
    DiscordParticipant,
    NoticeKind,
    OnOff,
    Preferences,
    SubmissionOwner,
    ThreadChoice,
)
from shared.api.moderation import RejudgeSummary
from shared.errors import Refused, unknown_submission
from shared.events import RejudgePreviewed, RejudgeRequested, SubmissionReceived
from shared.licences import AccountLicence

DISCORD = "discord"


class PreferencesRequest(RequestModel):
    """Preferences to change; those that are not sent stay as they are."""

    overtaken: DeliveryChannel | None = None
    run_finished: DeliveryChannel | None = None
    deadline_near: DeliveryChannel | None = None
    ranked_line: OnOff | None = None
    threads: ThreadChoice | None = None
    licence: AccountLicence | None = None


@dataclass(frozen=True)
class PreferenceCommands:
    """The preferences of participants, and what the Discord edge reads.

    Methods may raise `Refused` and `Failed`.
    """

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    def find(self, account: str | None) -> Preferences:
        """Return the preferences of an account; None is a participant without one."""
        self.feed.rights()
        return msgspec.convert(self.feed.preferences.find(account or ""), Preferences)

    async def choose(self, caller: Caller, changes: PreferencesRequest) -> Preferences:
        """Change the caller's preferences and return all of them."""
        check_unlimited(caller)
        command = changes.model_dump(exclude_none=True)
        aggregate = subjects.account(caller.id)
        await self.decisions.make(aggregate, rules.PREFERENCE_DECIDER, command, caller.actor)
        return self.find(caller.id)

    async def load_participant(self, account: str) -> DiscordParticipant:
        """Return a participant by account; an unknown one has no Discord id. Raises `Failed`."""
        access, store = self.feed.rights(), self.ports.account_store
        account = access.account_of(account)
        discord_ids = [
            identity.subject
            for part in access.parts_of(account)
            for identity in await store.identities(part)
            if identity.provider == DISCORD
        ]
        return DiscordParticipant(
            participant_id=account,
            discord=discord_ids[0] if discord_ids else None,
            preferences=self.find(account),
        )

    async def load_recipients(self, kind: NoticeKind) -> list[DiscordParticipant]:
        """Return the participants who want a kind of notification. Raises `Failed`."""
        merged = self.feed.rights().merged
        accounts = self.feed.preferences.accounts_with(kind)
        return [await self.load_participant(it) for it in accounts if it not in merged]

    async def owner(self, submission: str) -> SubmissionOwner:
        """Return the owner of a submission, by its id.

        Raises `Refused` (`unknown_submission`) and `Failed`.
        """
        for event in await self.ports.log.history(subjects.submission(submission)):
            received = event.fact
            if isinstance(received, SubmissionReceived):
                participant = await self.load_participant(received.account)
                return SubmissionOwner(
                    participant_id=participant.participant_id,
                    discord=participant.discord,
                    preferences=participant.preferences,
                    number=event.seq,
                    problem=received.problem,
                    gpu=received.gpu,
                    mode=received.mode,
                    baseline=received.baseline,
                )
        raise unknown_submission(submission, "id")

    async def rejudge(self, rejudge: str) -> RejudgeSummary:
        """Return the summary of a rejudge. Raises `Refused` (`unknown_rejudge`) and `Failed`."""
        summary: RejudgeSummary | None = None
        for event in await self.ports.log.history(subjects.rejudge(rejudge)):
            match event.fact:
                case RejudgeRequested() as requested:
                    summary = RejudgeSummary(
                        problem=requested.problem,
                        from_version=requested.from_number,
                        to_version=requested.to_number,
                        count=len(requested.items),
                        changed_count=0,
                    )
                case RejudgePreviewed(changed_count=count) if summary is not None:
                    summary = structs.replace(summary, changed_count=count)
        if summary is None:
            raise Refused("unknown_rejudge", f"there is no rejudge {rejudge!r}", "id")
        return summary
