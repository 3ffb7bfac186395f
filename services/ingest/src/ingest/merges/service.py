"""The commands that merge accounts and undo it.

Both accounts prove themselves: one makes a code, which is entered in the other. Operators give a
reason instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ingest.contests.service import ContestCommands
from ingest.decisions import DECISIONS_MAX, DecisionResult, Decisions, back_off, http_append
from ingest.evaluations.rules import Budget, fold_budget
from ingest.http.attempts import AttemptLimiter
from ingest.identity.access.feed import AccessFeed
from ingest.identity.accounts.service import Accounts
from ingest.identity.caller import Caller, check_unlimited
from ingest.identity.secrets import hash_secret, new_invite_code
from ingest.merges import rules
from ingest.merges.rules import AggregateFact, Side
from ingest.ports import find_own_account
from ingest.quotas.rules import Quota, fold_uses
from ingest.quotas.service import Quotas
from shared import subjects
from shared.api.accounts import Merge, MergeCode, MergePreview
from shared.errors import Failed, Refused
from shared.event_log import Conflict
from shared.events import MergeOffered

MERGES, WRONG_CODES = "10/day", "10/hour"


class _Pair(NamedTuple):
    """Both sides of a merge, and the versions of all that was read, by aggregate."""

    part: Side
    into: Side
    versions: dict[str, int]


@dataclass(frozen=True)
class Merges:
    """Merges accounts. Methods may raise `Refused` and `Failed`.

    `attempts` limits how often an account may be merged, and `wrong_codes` what may be guessed.
    """

    decisions: Decisions
    feed: AccessFeed
    people: Accounts
    quotas: Quotas
    contests: ContestCommands
    attempts: AttemptLimiter = field(
        default_factory=lambda: AttemptLimiter(MERGES, "merges of this account")
    )
    wrong_codes: AttemptLimiter = field(
        default_factory=lambda: AttemptLimiter(WRONG_CODES, "wrong codes")
    )

    async def offer(self, caller: Caller) -> MergeCode:
        """Return a new code; who enters it in another account merges the caller's into that."""
        check_unlimited(caller)
        self.attempts.take(caller.id)
        rules.check_part((await self._load(caller.id, caller.id)).part)
        code = new_invite_code()
        expires_at = self.decisions.clock() + timedelta(seconds=rules.OFFER_S)
        offered = MergeOffered(code_hash=hash_secret(code), expires_at=expires_at)
        aggregate = subjects.account(caller.id)
        result = await self.decisions.record(aggregate, offered, caller.actor, None)
        await self.feed.wait_until_folded(result.seq)
        return MergeCode(code=code, expires_at=expires_at)

    async def preview(self, code: str, caller: Caller) -> MergePreview:
        """Return which account a code would merge into the caller's."""
        part = self._find_offer(code, caller)
        pair = await self._load(part, caller.id)
        at = self.decisions.clock()
        rules.merge(pair.part, pair.into, at)
        return MergePreview(
            participant_id=part,
            participant=await self.people.name_of(part),
            into_id=caller.id,
            into=await self.people.name_of(caller.id),
            undo_until_at=at + timedelta(days=rules.UNDO_DAYS),
        )

    async def accept(self, code: str, caller: Caller) -> Merge:
        """Merge the account that made a code into the caller's."""
        part = self._find_offer(code, caller)
        self.attempts.take(caller.id)

        def decide(pair: _Pair, at: datetime) -> list[AggregateFact]:
            # A code works once: the merge forgets it, so a second one finds no offer.
            if self.feed.rights().offer(hash_secret(code), at) is None:
                raise _invalid_code()
            return rules.merge(pair.part, pair.into, at)

        await self._decide(part, caller.id, decide, caller.actor)
        return await self._describe(part)

    async def merge(self, name: str, into_name: str, reason: str, operator: str) -> Merge:
        """Merge one participant's account into another's, for an operator."""
        part, into = await self._own_account(name), await self._own_account(into_name)
        await self._decide(
            part,
            into,
            lambda pair, at: rules.merge(pair.part, pair.into, at, reason, is_operator=True),
            operator,
        )
        return await self._describe(part)

    async def list_merges(self, account: str) -> list[Merge]:
        """Return the accounts that are part of an account."""
        parts = self.feed.rights().parts_of(account)[1:]
        return [await self._describe(part) for part in parts]

    async def undo(self, name: str, caller: Caller) -> DecisionResult:
        """Make an account that is part of the caller's its own again."""
        check_unlimited(caller)
        part = await self._own_account(name)
        if part not in self.feed.rights().parts_of(caller.id)[1:]:
            raise Refused("unknown_participant", f"{name} is not part of your account", "name")
        return await self._undo(part, "", caller.actor)

    async def undo_as_operator(self, name: str, reason: str, operator: str) -> DecisionResult:
        """Make an account its own again, for an operator."""
        return await self._undo(await self._own_account(name), reason, operator)

    async def _undo(self, part: str, reason: str, actor: str) -> DecisionResult:
        into = self.feed.rights().account_of(part)
        return await self._decide(
            part, into, lambda pair, at: rules.undo(pair.part, pair.into, at, reason), actor
        )

    async def _own_account(self, name: str) -> str:
        return await find_own_account(self.people.store, self.decisions.log, name)

    def _find_offer(self, code: str, caller: Caller) -> str:
        """Return the account that made a code. Wrong codes are counted."""
        check_unlimited(caller)
        self.wrong_codes.check(caller.id)
        offer = self.feed.rights().offer(hash_secret(code.strip()), self.decisions.clock())
        if offer is None:
            self.wrong_codes.take(caller.id)
            raise _invalid_code()
        return offer.account

    async def _describe(self, part: str) -> Merge:
        side = (await self._load(part, part)).part
        if side.merged is None:
            raise Failed("this merge was undone meanwhile")
        return Merge(
            participant_id=part,
            participant=await self.people.name_of(part),
            into_id=side.merged.into,
            into=await self.people.name_of(side.merged.into),
            undo_until_at=side.merged.undo_until_at,
            reason=side.merged.reason,
        )

    async def _decide(
        self,
        part: str,
        into: str,
        decide: Callable[[_Pair, datetime], Sequence[AggregateFact]],
        actor: str,
    ) -> DecisionResult:
        """Decide on both accounts as they are, and append all events or none."""
        for attempt in range(DECISIONS_MAX):
            pair = await self._load(part, into)
            facts = decide(pair, self.decisions.clock())
            named: set[str] = set()
            appends = []
            for aggregate, fact in facts:
                # Of several events of one aggregate in a batch, only the first names a version.
                expected = None if aggregate in named else pair.versions[aggregate]
                appends.append(http_append(aggregate, fact, expected, part))
                named.add(aggregate)
            try:
                seq = await self.decisions.append(actor, *appends)
            except Conflict:
                await back_off(attempt)
                continue
            result = DecisionResult(seq, [fact for _, fact in facts])
            await self.feed.wait_until_folded(seq, result.facts)
            return result
        raise Failed("these accounts changed too often during the request: try again")

    async def _load(self, part: str, into: str) -> _Pair:
        """Read both accounts, with their quotas and the device time that they used."""
        versions: dict[str, int] = {}
        return _Pair(
            await self._load_side(part, versions), await self._load_side(into, versions), versions
        )

    async def _load_side(self, account: str, versions: dict[str, int]) -> Side:
        log, at = self.decisions.log, self.decisions.clock()
        aggregates = (subjects.account(account), subjects.quota(account), subjects.budget(account))
        histories = [await log.history(aggregate) for aggregate in aggregates]
        for aggregate, history in zip(aggregates, histories, strict=True):
            versions[aggregate] = history[-1].seq if history else 0
        own, quota, budget = ([event.fact for event in history] for history in histories)
        side = rules.fold_side(Side(account), own)
        quotas, budgets = fold_uses(Quota(), quota, at), fold_budget(Budget(), budget, at)
        open_count = len(quotas.opened) - len(await self.quotas.find_ended(quotas))
        open_count += sum(not use.is_over for use in budgets.uses.values())
        contests = await self.contests.contests_that_bind(account)
        return replace(side, quota=quotas, budget=budgets, open_count=open_count, contests=contests)


def _invalid_code() -> Refused:
    message = "this code is wrong, used or expired: make a new one in the other account"
    return Refused("unknown_code", message, "code")
