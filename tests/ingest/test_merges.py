"""Two accounts of one person become one, and two again: who may do it, and what each has then."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import httpx
import pytest

from ingest.contests.state import ContestState, fold_contest
from ingest.identity.access.fold import Access, MergeOffer
from ingest.merges import rules
from ingest.merges.rules import PARTS_MAX, AggregateFact, Side
from ingest.quotas.rules import Limit, Quota, QuotaUse, balance, fold_uses
from shared import events, subjects
from shared.api.quotas import Balance
from shared.errors import Refused
from shared.events import AccountBanned, ConsentGiven
from tests.support.chance import seeds
from tests.support.door import OPERATOR, Door
from tests.support.holders import code, made, role, submit, token
from tests.support.lives import T0

BUCKET = "copy.CPU.test"
LATER = T0 + timedelta(hours=6)
BAN = AccountBanned(reason="copied", until_at=None)
SHORT_BAN = AccountBanned(reason="rude", until_at=T0 + timedelta(days=1))
CONSENT = ConsentGiven(problem="copy", number=1, digest="d")


def opened(id_: str, *facts: events.Fact, **more: Any) -> Side:
    """An account after some events."""
    side = rules.fold_side(Side(id_), [events.AccountOpened(via="web"), *facts])
    return replace(side, **more)


def used(*submissions: str) -> Quota:
    """What these submissions used of one bucket."""
    return Quota(taken={name: QuotaUse(BUCKET, 1, LATER) for name in submissions})


def apply(sides: Mapping[str, Side], facts: list[AggregateFact]) -> dict[str, Side]:
    """The accounts after these events."""
    changed = dict(sides)
    for aggregate, fact in facts:
        kind, id_ = aggregate.split(".")
        side = changed[id_]
        if kind == "quota":
            changed[id_] = replace(side, quota=fold_uses(side.quota, [fact]))
        elif kind == "account":
            changed[id_] = rules.fold_side(side, [fact])
    return changed


def merged(part: Side, into: Side, **more: Any) -> tuple[Side, Side]:
    """Both accounts after their merge."""
    sides = {part.id: part, into.id: into}
    changed = apply(sides, rules.merge(part, into, T0, **more))
    return changed[part.id], changed[into.id]


def separated(part: Side, into: Side) -> tuple[Side, Side]:
    """Both accounts after the undo of their merge."""
    changed = apply({part.id: part, into.id: into}, rules.undo(part, into, T0))
    return changed[part.id], changed[into.id]


ADMIN = events.RoleGranted(role="admin", reason="r")
CREATOR = events.RoleGranted(role="creator", reason="r")
PART, INTO = opened("s"), opened("p")
MERGED_PART, MERGED_INTO = merged(PART, INTO)


@pytest.mark.parametrize(
    ("part", "into", "reason"),
    [
        (PART, PART, "your own account"),
        (MERGED_PART, opened("q"), "part of another one already"),
        (opened("q"), MERGED_PART, "part of another one"),
        (MERGED_INTO, opened("q"), "other accounts are part of this one"),
        (opened("s", CREATOR), INTO, "an account with a role"),
        (opened("s", ADMIN), INTO, "an account with a role"),
        (PART, opened("p", ADMIN), "the account of an operator"),
        (opened("s", BAN), INTO, "banned"),
        (PART, opened("p", BAN), "banned"),
        (replace(PART, open_count=1), INTO, "not over"),
        (replace(PART, contests=["cup"]), INTO, "has a part in cup"),
        (PART, replace(INTO, open_count=2), "not over"),
    ],
)
def test_an_account_is_part_of_one_other_and_nobody_escapes_or_gains_by_it(
    part: Side, into: Side, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        rules.merge(part, into, T0)


@pytest.mark.parametrize(
    ("part", "into"),
    [
        (opened("s", ADMIN), INTO),
        (PART, opened("p", ADMIN)),
        (MERGED_PART, opened("q")),
        (replace(PART, open_count=1), INTO),
    ],
)
def test_an_operator_may_do_no_more_than_merge_banned_accounts(part: Side, into: Side) -> None:
    with pytest.raises(Refused):
        rules.merge(part, into, T0, "r", is_operator=True)
    assert rules.merge(opened("s", BAN), INTO, T0, "r", is_operator=True)


def test_few_accounts_are_part_of_one() -> None:
    into = INTO
    for number in range(PARTS_MAX):
        _, into = merged(opened(f"s{number}"), into)
    with pytest.raises(Refused, match="at most"):
        rules.merge(PART, into, T0)


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ([BAN], [], BAN),
        ([], [BAN], BAN),
        ([SHORT_BAN], [BAN], BAN),
        ([BAN], [SHORT_BAN], BAN),
        ([], [], None),
    ],
)
def test_the_longer_ban_holds_for_both_until_they_are_separated(
    own: list[AccountBanned], other: list[AccountBanned], expected: AccountBanned | None
) -> None:
    before = opened("s", *own), opened("p", *other)
    part, into = merged(*before, is_operator=True, reason="r")
    assert into.account.ban_at(T0) == expected
    part, into = separated(part, into)
    # The one that was part of the other may have been used by the same person.
    assert part.account.ban_at(T0) == expected
    assert into.account.ban_at(T0) == before[1].account.ban_at(T0)


def test_a_ban_during_a_merge_stays_on_both() -> None:
    part, into = MERGED_PART, rules.fold_side(MERGED_INTO, [BAN])
    part, into = separated(part, into)
    assert part.account.ban_at(T0) == into.account.ban_at(T0) == BAN


def test_consents_are_those_of_both_and_a_withdrawal_is_of_both() -> None:
    part, into = merged(opened("s", CONSENT), INTO)
    assert into.account.consents == {"copy": "d"}
    kept, given_back = separated(part, into)
    assert (kept.account.consents, given_back.account.consents) == ({"copy": "d"}, {})
    withdrawn = events.ConsentWithdrawn(problem="copy", digest="d")
    kept, given_back = separated(part, rules.fold_side(into, [withdrawn]))
    assert (kept.account.consents, given_back.account.consents) == ({}, {})


def test_a_merge_can_be_undone_for_seven_days() -> None:
    last = T0 + timedelta(days=7)
    assert rules.undo(MERGED_PART, MERGED_INTO, last - timedelta(seconds=1))
    with pytest.raises(Refused, match="could be undone until"):
        rules.undo(MERGED_PART, MERGED_INTO, last)
    with pytest.raises(Refused, match="not part of another one"):
        rules.undo(PART, INTO, T0)
    part, into = separated(MERGED_PART, MERGED_INTO)
    assert (part.account, part.merged) == (PART.account, None)
    assert (into.account, into.received) == (INTO.account, {})


def left(side: Side, everybody: Quota) -> int:
    """What is left of the bucket."""
    return balance_of(side.quota, everybody).remaining


def balance_of(quota: Quota, everybody: Quota) -> Balance:
    """The limit of the bucket, and what is left of it."""
    found = balance(BUCKET, quota, [[everybody.limits]], T0)
    assert found is not None
    return found


@seeds(20)
def test_no_order_of_merges_and_undos_gives_more_than_two_accounts_had(seed: int) -> None:
    """Three of the same person: the bucket is theirs three times at most, and once while merged."""
    chance, count = Random(seed), 0
    everybody = Quota(limits={BUCKET: Limit(5, 86400.0)})
    sides = {name: opened(name) for name in "abc"}
    for _ in range(60):
        part, into = chance.sample(sorted(sides), 2)
        try:
            if chance.random() < 0.5:
                sides = apply(sides, rules.merge(sides[part], sides[into], T0))
                parts = {*sides[into].received, into}
                uses = {name for it in parts for name in sides[it].quota.taken}
                assert uses == set(sides[into].quota.taken)
            elif (merge_of_part := sides[part].merged) is not None:
                into = merge_of_part.into
                sides = apply(sides, rules.undo(sides[part], sides[into], T0))
                assert left(sides[part], everybody) <= left(sides[into], everybody)
        except Refused:
            pass
        free = [it for it in sides.values() if it.merged is None and left(it, everybody)]
        if free:
            user, count = chance.choice(free), count + 1
            taken = {**user.quota.taken, f"u{count}": QuotaUse(BUCKET, 1, LATER)}
            sides[user.id] = replace(user, quota=replace(user.quota, taken=taken))
        assert count <= 15
        assert not any(it.merged and sides[it.merged.into].merged for it in sides.values())


def test_a_stricter_limit_of_one_account_holds_until_an_operator_sets_another() -> None:
    everybody = Quota(limits={"*.*.test": Limit(5, 86400.0)})
    limited = replace(used("s1"), limits={BUCKET: Limit(1, 86400.0)})
    part, into = merged(replace(PART, quota=limited), replace(INTO, quota=used("p1")))
    assert balance_of(into.quota, everybody).limit == 1
    assert left(into, everybody) == 0
    raised = fold_uses(
        into.quota, [events.QuotaLimitSet(bucket=BUCKET, limit=9, window_s=86400.0, reason="r")]
    )
    assert balance_of(raised, everybody).limit == 9
    part, into = separated(part, into)
    assert balance_of(into.quota, everybody).limit == 5
    assert balance_of(part.quota, everybody).limit == 1


async def ask(door: Door, method: str, path: str, headers: Mapping[str, str], **body: Any) -> Any:
    answer = await door.http.request(method, f"/v1{path}", headers=headers, json=body or None)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


async def merge(door: Door, part: Mapping[str, str], into: Mapping[str, str]) -> Any:
    """Merge two accounts by a code, which is entered in the one that remains."""
    offered = await ask(door, "POST", "/me/merges/code", part)
    preview = await ask(door, "POST", "/me/merges/preview", into, code=offered["code"])
    done = await ask(door, "POST", "/me/merges", into, code=offered["code"])
    assert {name: done[name] for name in ("participant", "into")} == {
        name: preview[name] for name in ("participant", "into")
    }
    return done


def number_of(answer: httpx.Response) -> int:
    assert answer.status_code == 202, answer.text
    number = answer.json()["submissions"][0]["number"]
    assert isinstance(number, int)
    return number


async def account(door: Door, headers: Mapping[str, str]) -> Any:
    return await ask(door, "GET", "/me", headers)


@pytest.mark.feature("N9")
@pytest.mark.server
async def test_tokens_and_logins_of_both_lead_to_one_account_until_it_is_undone(
    strict: Door,
) -> None:
    ada, lace = await token(strict, "ada"), await token(strict, "lace")
    people = strict.commands.people
    ids = {name: await people.find(name) for name in ("ada", "lace")}
    await people.link(ids["ada"], "discord", "11", "operator:olga")
    await people.link(ids["lace"], "github", "22", "operator:olga")
    await ask(
        strict,
        "POST",
        "/admin/participants/lace/identities",
        OPERATOR,
        provider="discord",
        subject="33",
        reason="r",
    )
    done = await merge(strict, part=lace, into=ada)
    assert (done["participant"], done["into"], done["reason"]) == ("lace", "ada", "")
    for headers in (ada, lace):
        shown = await account(strict, headers)
        assert (shown["participant_id"], shown["name"]) == (ids["ada"], "ada")
        subjects_shown = {it["subject"] for it in shown["identities"]}
        assert subjects_shown == {"11", "22", "33"}
        assert len((await ask(strict, "GET", "/tokens", headers))["items"]) == 2
    assert await people.find("lace") == ids["ada"]
    assert (await ask(strict, "GET", "/me/merges", ada))["items"] == [done]
    await ask(strict, "DELETE", "/me/merges/lace", lace)
    assert (await account(strict, ada))["participant_id"] == ids["ada"]
    shown = await account(strict, lace)
    assert (shown["participant_id"], shown["name"]) == (ids["lace"], "lace")
    assert {it["subject"] for it in shown["identities"]} == {"22", "33"}
    assert await people.find("lace") == ids["lace"]
    kinds = [
        event.envelope.type for event in await strict.log.history(subjects.account(ids["lace"]))
    ]
    assert kinds[-3:] == ["MergeOffered", "AccountMerged", "MergeUndone"]


@pytest.mark.server
async def test_submissions_of_both_belong_to_one_and_go_back(strict: Door) -> None:
    ada, lace = await token(strict, "ada"), await token(strict, "lace")
    first = number_of(await submit(strict, lace))
    await strict.finish(first)
    await merge(strict, part=lace, into=ada)
    answer = await strict.http.put(
        f"/v1/submissions/{first}/note", headers=ada, json={"note": "mine"}
    )
    assert answer.status_code < 300, answer.text
    second = number_of(await submit(strict, lace))
    await strict.finish(second)
    await ask(strict, "DELETE", "/me/merges/lace", ada)
    for number, own, other in ((first, lace, ada), (second, ada, lace)):
        path = f"/v1/submissions/{number}/note"
        assert (await strict.http.put(path, headers=own, json={"note": "x"})).status_code < 300
        answer = await strict.http.put(path, headers=other, json={"note": "x"})
        assert code(answer) == (403, "not_yours")


@pytest.mark.server
async def test_a_code_works_once_in_another_account_and_wrong_ones_are_counted(
    strict: Door,
) -> None:
    ada, lace = await token(strict, "ada"), await token(strict, "lace")
    offered = await ask(strict, "POST", "/me/merges/code", lace)
    own = await strict.http.post("/v1/me/merges", headers=lace, json={"code": offered["code"]})
    assert code(own) == (409, "wrong_state")
    newer = await ask(strict, "POST", "/me/merges/code", lace)
    for secret in (offered["code"], "guess"):
        answer = await strict.http.post("/v1/me/merges", headers=ada, json={"code": secret})
        assert code(answer) == (404, "unknown_code")
    limited = await token(strict, "ada", problems=["copy"])
    answer = await strict.http.post("/v1/me/merges", headers=limited, json={"code": newer["code"]})
    assert code(answer) == (403, "scope_missing")
    answer = await strict.http.post(
        "/v1/me/merges", headers=await token(strict, "ada", "submit"), json={"code": newer["code"]}
    )
    assert code(answer) == (403, "scope_missing")
    await ask(strict, "POST", "/me/merges", ada, code=newer["code"])
    answer = await strict.http.post("/v1/me/merges", headers=ada, json={"code": newer["code"]})
    assert code(answer) == (404, "unknown_code")
    for _ in range(10):
        answer = await strict.http.post("/v1/me/merges", headers=ada, json={"code": "guess"})
    assert code(answer) == (429, "rate_limited")


@pytest.mark.server
async def test_of_rival_merges_one_happens_and_there_are_no_loops(strict: Door) -> None:
    names = ("ada", "lace", "grace")
    headers = {name: await token(strict, name) for name in names}
    codes = {
        name: (await ask(strict, "POST", "/me/merges/code", headers[name]))["code"]
        for name in names
    }
    pairs = [(part, into) for part in names for into in names if part != into]
    answers = await asyncio.gather(
        *(
            strict.http.post("/v1/me/merges", headers=headers[into], json={"code": codes[part]})
            for part, into in pairs
        )
    )
    done = [pair for pair, answer in zip(pairs, answers, strict=True) if answer.status_code == 201]
    access = strict.commands.feed.rights()
    assert len(done) == len(access.merged) in (1, 2)
    assert not set(access.merged) & set(access.merged.values())


@pytest.mark.server
async def test_operators_merge_with_a_reason_and_the_account_of_an_operator_never(
    strict: Door,
) -> None:
    for name in ("ada", "lace"):
        await token(strict, name)
    await role(strict, "root", "admin")
    body = {"into": "ada", "reason": "one person"}
    for name, into in (("root", "ada"), ("ada", "root")):
        path = f"/v1/admin/participants/{name}/merge"
        answer = await strict.http.post(path, headers=OPERATOR, json=body | {"into": into})
        assert code(answer) == (409, "wrong_state")
    await strict.admin("POST", "participants/lace/ban", reason="copied")
    done = await ask(strict, "POST", "/admin/participants/lace/merge", OPERATOR, **body)
    assert done["reason"] == "one person"
    refused = await submit(strict, await token(strict, "ada"))
    assert code(refused) == (403, "user_banned")
    answer = await strict.http.delete("/v1/me/merges/lace", headers=await token(strict, "ada"))
    assert code(answer) == (403, "user_banned")
    await ask(strict, "DELETE", "/admin/participants/lace/merge", OPERATOR, reason="two persons")
    assert (await submit(strict, await token(strict, "ada"))).status_code == 202
    assert code(await submit(strict, await token(strict, "lace"))) == (403, "user_banned")


@pytest.mark.server
async def test_members_and_authors_keep_their_leaderboards_in_the_other_account(
    strict: Door,
) -> None:
    issued = await made(strict, "ada")
    ada = {"Authorization": f"Bearer {issued['token']}"}
    ann = await token(strict, "ann", "author", "account")
    await ask(strict, "PUT", "/admin/leaderboards/copy", ann, visibility="closed", reason="r")
    codes = await ask(strict, "POST", "/admin/invites", ann, leaderboards=["copy"], reason="r")
    lace = await token(strict, "lace")
    await ask(strict, "POST", "/user/join", lace, code=codes["codes"][0])
    assert (await submit(strict, ada)).status_code in (403, 404)
    await merge(strict, part=lace, into=ada)
    answer = await submit(strict, ada)
    assert answer.status_code == 202, answer.text


def test_who_has_a_part_in_a_contest_keeps_it_until_it_is_over() -> None:
    registered = events.ContestRegistered(
        account="ada", division="hand", terms_digest="d", declaration={}
    )
    left = events.ContestRegistrationWithdrawn(account="ada")
    state = fold_contest(ContestState(), [registered])
    assert state.binds("ada")
    assert not state.binds("grace")
    assert not fold_contest(state, [left]).binds("ada")
    out = events.ContestDisqualified(subject="ada", reason="r")
    assert fold_contest(state, [out, left]).binds("ada")


def test_offers_are_forgotten_when_they_expire() -> None:
    access = Access()
    assert access.offer("x", T0) is None
    access.offers["x"] = MergeOffer("a", T0 + timedelta(minutes=15))
    assert access.offer("x", T0) is not None
    access.drop_ended(T0 + timedelta(days=3))
    assert access.offers == {}
