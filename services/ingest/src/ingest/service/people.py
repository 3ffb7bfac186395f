"""Participants: their accounts, where else they are known, and their roles."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.domain import accounts
from ingest.service.decisions import By, Decisions, Made
from ingest.service.gate import AccessFeed
from ingest.service.ports import Identity, Register, account_of
from shared import subjects
from shared.clock import new_id
from shared.errors import Refused


@dataclass(frozen=True)
class People:
    """The commands about who somebody is."""

    decisions: Decisions
    feed: AccessFeed
    register: Register

    async def open(self, name: str, via: str, by: str) -> tuple[str, Made]:
        """The account of a new participant, or of one who is known. Errors: Refused; Failed."""
        account = await self.register.account(accounts.check_name(name))
        return account, await self.decide(account, accounts.Open(via), by or f"account:{account}")

    async def account(self, name: str) -> str | None:
        """The account of a name, None if nobody has it. Errors: Failed."""
        return await self.register.known(name)

    async def find(self, name: str) -> str:
        """The account of a known participant, by name or account. Errors: Refused; Failed."""
        return await account_of(self.register, self.decisions.log, name)

    async def name_of(self, account: str) -> str:
        """The name of an account; the account itself once the name is erased. Errors: Failed."""
        return await self.register.name_of(account) or account

    async def names(self, after: str, limit: int) -> Sequence[tuple[str, str]]:
        """Accounts with their names, in order, from after an account. Errors: Failed."""
        return await self.register.names(after, limit)

    async def rename(self, name: str, wanted: str, by: str) -> str:
        """Call a participant otherwise; what they were called leads to them still. The account.

        No event says a name, so that it can be erased. Errors: Refused `name_taken`, or
        `scope_missing` if a moderator names an operator; Failed.
        """
        account = await self.find(name)
        accounts.check_over(self.feed.now().roles, by, account)
        if not await self.register.rename(account, accounts.check_name(wanted)):
            what = f"{wanted} is, or was, the name of another participant: choose another"
            raise Refused("name_taken", what, "name")
        return account

    async def account_of_identity(self, provider: str, subject: str) -> str | None:
        """The account of who is known elsewhere, None if nobody is. Errors: Failed."""
        found = await self.register.identity_of(provider, subject)
        return None if found is None else found.account

    async def link(self, account: str, provider: str, subject: str, by: str) -> Made:
        """Let somebody known elsewhere be this participant; a second time changes nothing.

        Errors: Refused `identity_taken` if they are another participant; Failed.
        """
        identity = Identity(new_id(), provider, subject, account)
        if not await self.register.add_identity(identity):
            found = await self.register.identity_of(provider, subject)
            if found is None or found.account != account:
                what = f"this {provider} identity is another participant's"
                raise Refused("identity_taken", what, "subject")
            identity = found
        return await self.decide(account, accounts.Link(identity.id, provider), by)

    async def unlink(self, account: str, identity: str, reason: str, by: str) -> Made:
        """Let an identity be this participant's no longer. Errors: Refused; Failed."""
        made = await self.decide(account, accounts.Unlink(identity, reason), by)
        await self.register.remove_identity(identity)
        return made

    async def identities(self, account: str) -> Sequence[Identity]:
        """Where a participant is known. Errors: Failed."""
        return await self.register.identities(account)

    async def role(
        self, name: str, command: accounts.Grant | accounts.TakeRole, operator: str
    ) -> Made:
        """Give a participant a role, or take it. Errors: Refused; Failed."""
        return await self.decide(await self.find(name), command, operator)

    async def decide(self, account: str, command: accounts.AccountCommand, by: str) -> Made:
        """A decision about an account, which holds from now on. Errors: Refused; Failed."""
        agg = subjects.account(account)
        made = await self.decisions.make(agg, accounts.accounts, command, By(by, account))
        await self.feed.reach(made.seq)
        return made
