"""In-memory stores of participants, webhooks and idempotency keys, for tests without Postgres.

They pass the contract suite of the Postgres stores in `tests/contracts/test_accounts.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ingest.identity.names import accounts_lost
from ingest.ports import (
    LOST_AFTER_S,
    REPEATS_KEPT_S,
    IdempotentRequest,
    Identity,
    NewWebhook,
    Note,
    RegisterRow,
    StoredResponse,
    TokenRow,
)
from shared.api.webhooks import Delivery, Webhook
from shared.clock import new_id, now


@dataclass
class MemoryAccountStore:
    """Participants, identities, token names, invite codes and notes in dicts."""

    participants: dict[str, str] = field(default_factory=dict)  # name by account
    former_names: dict[str, str] = field(default_factory=dict)  # account by name
    linked: dict[str, Identity] = field(default_factory=dict)
    token_rows: dict[str, TokenRow] = field(default_factory=dict)
    invite_codes: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    is_lost: bool = False

    async def open_account(self, name: str) -> str:
        """Return the account of a name, and open one if the name is new."""
        account = await self.find_account(name)
        if account is None:
            if self.is_lost:
                raise accounts_lost()
            account = new_id()
            self.participants[account] = name
        return account

    async def find_account(self, name: str) -> str | None:
        """Return the account that has or had this name."""
        for account, current_name in self.participants.items():
            if current_name == name:
                return account
        return self.former_names.get(name)

    async def name_of(self, account: str) -> str | None:
        """Return the current name of an account."""
        return self.participants.get(account)

    async def names_of(self, accounts: Sequence[str]) -> Mapping[str, str]:
        """Return the current names of accounts."""
        return {
            account: self.participants[account]
            for account in accounts
            if account in self.participants
        }

    async def names(self, after: str, limit: int) -> Sequence[tuple[str, str]]:
        """Return a page of accounts with their names, ordered by account."""
        return sorted(pair for pair in self.participants.items() if pair[0] > after)[:limit]

    async def personal_names(self) -> Sequence[str]:
        """Return every name that participants have or had, and their ids on other systems."""
        subjects = [identity.subject for identity in self.linked.values()]
        return [*self.participants.values(), *self.former_names, *subjects]

    async def rename(self, account: str, name: str) -> bool:
        """Rename an account; return False if the name belongs or belonged to another account."""
        if await self.find_account(name) not in {account, None}:
            return False
        former_name = self.participants.get(account, name)
        self.former_names.pop(name, None)
        if former_name != name:
            self.former_names[former_name] = account
        self.participants[account] = name
        for key, identity in self.linked.items():
            if identity[1:4] == ("web", former_name, account):
                self.linked[key] = identity._replace(subject=name)
        return True

    async def register_row(self) -> RegisterRow:
        """Return the register of these dicts."""
        return RegisterRow("memory", self.is_lost, bool(self.participants))

    async def set_lost(self, *, is_lost: bool) -> None:
        """Store whether the names are lost."""
        self.is_lost = is_lost

    async def identity_of(self, provider: str, subject: str) -> Identity | None:
        """Return the identity with this provider and subject."""
        for identity in self.linked.values():
            if (identity.provider, identity.subject) == (provider, subject):
                return identity
        return None

    async def add_identity(self, identity: Identity) -> bool:
        """Store an identity; return False if the subject already belongs to a participant."""
        if identity.id in self.linked or await self.identity_of(*identity[1:3]) is not None:
            return False
        self.linked[identity.id] = identity._replace(linked_at=now())
        return True

    async def remove_identity(self, identity: str) -> None:
        """Remove an identity, if it exists."""
        self.linked.pop(identity, None)

    async def identities(self, account: str) -> Sequence[Identity]:
        """Return the identities of an account, oldest first."""
        return [identity for identity in self.linked.values() if identity.account == account]

    async def add_token(self, row: TokenRow) -> None:
        """Store the name of a token."""
        self.token_rows.setdefault(row.token, row)

    async def tokens(self, account: str) -> Sequence[TokenRow]:
        """Return the tokens of an account, newest first."""
        return [row for row in reversed(self.token_rows.values()) if row.account == account]

    async def record_usage(self, tokens: Mapping[str, datetime]) -> None:
        """Store when tokens were last used; an earlier time changes nothing."""
        for token, used_at in tokens.items():
            row = self.token_rows.get(token)
            if row and (row.last_used_at is None or row.last_used_at < used_at):
                self.token_rows[token] = row._replace(last_used_at=used_at)

    async def add_invites(self, codes: Mapping[str, str]) -> None:
        """Store the codes of invites."""
        self.invite_codes |= codes

    async def codes(self, invites: Sequence[str]) -> Mapping[str, str]:
        """Return the codes of these invites."""
        return {key: self.invite_codes[key] for key in invites if key in self.invite_codes}

    async def has_row(self, account: str) -> bool:
        """Return whether an account has a name."""
        return account in self.participants

    async def begin_notes(self, account: str, submissions: Sequence[str], note: Note) -> None:  # noqa: ARG002
        """Store a note on each submission that has none."""
        for submission in submissions:
            self.notes.setdefault(submission, note)

    async def set_note(self, account: str, submission: str, note: Note) -> None:  # noqa: ARG002
        """Replace the note on a submission."""
        self.notes[submission] = note


@dataclass
class MemoryWebhookStore:
    """Webhooks and their test deliveries in dicts; nothing is sent."""

    rows: dict[str, tuple[str, int | None, Webhook]] = field(default_factory=dict)
    deliveries_by_webhook: list[tuple[str, Delivery]] = field(default_factory=list)

    async def add(self, account: str, id_: str, webhook: NewWebhook, webhooks_max: int) -> bool:
        """Store a webhook that is not in the log yet; return False at the limit."""
        if sum(owner == account for owner, _, _ in self.rows.values()) >= webhooks_max:
            return False
        row = Webhook(
            id=id_,
            url=webhook.url,
            events=list(webhook.kinds),
            problems=list(webhook.problems),
            state="on",
            notice=None,
            off_at=None,
            created_at=now(),
        )
        self.rows[id_] = (account, None, row)
        return True

    async def keep(self, id_: str, seq: int) -> None:
        """Store the sequence of the webhook's event."""
        account, _, row = self.rows[id_]
        self.rows[id_] = (account, seq, row)

    async def forget(self, id_: str) -> None:
        """Remove a webhook and its deliveries, if it exists."""
        self.rows.pop(id_, None)
        self.deliveries_by_webhook = [pair for pair in self.deliveries_by_webhook if pair[0] != id_]

    async def listed(self, account: str) -> Sequence[Webhook]:
        """Return the webhooks of an account that are in the log, oldest first."""
        rows = {seq: row for owner, seq, row in self.rows.values() if owner == account and seq}
        return [rows[seq] for seq in sorted(rows)]

    async def test(self, id_: str, event: str) -> None:
        """Store a pending test delivery."""
        number = self.deliveries_by_webhook[-1][1].number + 1 if self.deliveries_by_webhook else 1
        at = now()
        delivery = Delivery(
            number=number,
            event_id=event,
            type="test",
            state="pending",
            tries=0,
            status=None,
            error=None,
            took_ms=None,
            created_at=at,
            tried_at=None,
            next_at=at,
        )
        self.deliveries_by_webhook.append((id_, delivery))

    async def deliveries(self, id_: str, before: int, limit: int) -> Sequence[Delivery]:
        """Return a page of the webhook's deliveries, newest first."""
        return [
            delivery
            for webhook, delivery in reversed(self.deliveries_by_webhook)
            if webhook == id_ and delivery.number < before
        ][:limit]


@dataclass
class MemoryIdempotencyStore:
    """Requests under an Idempotency-Key and their answers in a dict."""

    requests: dict[tuple[str, str, str], tuple[IdempotentRequest, StoredResponse]] = field(
        default_factory=dict
    )

    async def begin(self, request: IdempotentRequest) -> StoredResponse | None:
        """Return None for the first request under its key, else what the first one answered."""
        if request[:3] in self.requests:
            first, response = self.requests[request[:3]]
            age_s_max = LOST_AFTER_S if response.status is None else REPEATS_KEPT_S
            if first.at >= request.at - timedelta(seconds=age_s_max):
                return response
        self.requests[request[:3]] = (request, StoredResponse(request.request_hash, None, b""))
        return None

    async def keep(self, request: IdempotentRequest, status: int, body: bytes) -> None:
        """Store the answer of the first request."""
        if self._is_open(request):
            self.requests[request[:3]] = (
                request,
                StoredResponse(request.request_hash, status, body),
            )

    async def forget(self, request: IdempotentRequest) -> None:
        """Free the key of a request that changed nothing."""
        if self._is_open(request):
            del self.requests[request[:3]]

    async def purge(self, at: datetime) -> None:
        """Remove requests that are more than a day old."""
        oldest_at = at - timedelta(seconds=REPEATS_KEPT_S)
        self.requests = {
            key: pair for key, pair in self.requests.items() if pair[0].at >= oldest_at
        }

    def _is_open(self, request: IdempotentRequest) -> bool:
        if request[:3] not in self.requests:
            return False
        first, response = self.requests[request[:3]]
        return response.status is None and first.at == request.at
