"""The Discord edge acts for who uses the bot, as them, and as staff by two keys alone."""

from collections.abc import AsyncIterator, Mapping

import httpx
import pytest

from ingest.settings import load
from shared.errors import Refused
from shared.events import SubmissionReceived
from tests.support.door import FILES, OPERATOR, Door, opened, postgres_stores, report_of, taken_in
from tests.support.holders import code
from tests.support.memory import MemoryLog

pytestmark = pytest.mark.server

EDGE_TOKEN = "a-token-of-the-edge"
EDGE = {"Authorization": f"Bearer {EDGE_TOKEN}"}


@pytest.fixture
async def door(postgres_dsn: str) -> AsyncIterator[Door]:
    async with (
        postgres_stores(postgres_dsn) as stores,
        opened(
            MemoryLog(),
            stores=stores,
            are_names_believed=False,
            edge=(EDGE_TOKEN, frozenset({"admin"})),
        ) as opened_door,
    ):
        form = {"slug": "copy", "report": report_of(FILES)}
        parts = [("files", (name, text)) for name, text in FILES.items()]
        answer = await opened_door.http.post(
            "/v1/problems", data=form, files=parts, headers=OPERATOR
        )
        assert answer.status_code == 201, answer.text
        yield opened_door


def user(number: int, name: str = "Ada%20L", **more: str) -> Mapping[str, str]:
    """What the edge shows for somebody."""
    named = {"Warpboard-Discord-User": str(number), "Warpboard-Discord-Name": name}
    return EDGE | named | more


async def test_a_discord_user_is_one_participant(door: Door) -> None:
    again = {"Idempotency-Key": "77"}
    answers = [await door.submit(headers=user(7, **again)) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json()["submissions"][0]["id"] == answers[1].json()["submissions"][0]["id"]
    other = await door.submit(headers=user(8))
    assert other.status_code == 202
    [first, second] = [answer for _, _, answer in taken_in(door.log)]
    assert isinstance(first, SubmissionReceived)
    assert first.via == "discord"
    assert first.account != second.account
    me = (await door.http.get("/v1/me", headers=user(7))).json()
    assert (me["participant_id"], me["name"]) == (first.account, "ada-l")
    assert [answer["provider"] for answer in me["identities"]] == ["discord"]
    assert (await door.http.get("/v1/me", headers=user(8))).json()["name"] == "ada-l-2"


async def test_a_known_identity_is_the_same_participant(door: Door) -> None:
    await door.admin("POST", "participants", name="grace", reason="known")
    linked = await door.admin(
        "POST", "participants/grace/identities", provider="discord", subject="9", reason="known"
    )
    assert linked.is_success, linked.text
    assert (await door.http.get("/v1/me", headers=user(9))).json()["name"] == "grace"


async def test_the_edge_grants_no_operator_scopes_and_no_tokens(door: Door) -> None:
    assert (await door.submit(headers=user(7))).status_code == 202
    granted = await door.admin("POST", "participants/ada-l/roles", role="admin", reason="r")
    assert granted.is_success, granted.text
    refused = await door.http.post("/v1/admin/intake/pause", json={"reason": "r"}, headers=user(7))
    assert code(refused) == (403, "scope_missing")
    token_request = {"name": "t", "scopes": ["submit"]}
    refused = await door.http.post("/v1/tokens", json=token_request, headers=user(7))
    assert code(refused) == (403, "scope_missing")
    me = (await door.http.get("/v1/me", headers=user(7))).json()
    assert "author" in me["scopes"]
    assert not [scope for scope in me["scopes"] if scope.startswith("admin")]


async def test_a_creators_role_on_discord_is_enough_where_a_setting_says_so(
    postgres_dsn: str,
) -> None:
    async def scopes(door: Door, number: int, *roles: str) -> list[str]:
        headers = user(number, **({"Warpboard-Discord-Roles": ",".join(roles)} if roles else {}))
        assert (await door.http.get("/v1/problems", headers=headers)).status_code < 500
        accepted = await door.http.post("/v1/user/join", json={"code": "none"}, headers=headers)
        assert accepted.status_code != 401
        granted: list[str] = (await door.http.get("/v1/me", headers=headers)).json()["scopes"]
        return granted

    for confirmed, is_enough in ((frozenset({"creator"}), True), (frozenset({"admin"}), False)):
        async with (
            postgres_stores(postgres_dsn) as stores,
            opened(
                MemoryLog(),
                stores=stores,
                are_names_believed=False,
                edge=(EDGE_TOKEN, confirmed),
            ) as door,
        ):
            for number, role in ((21, "creator"), (22, "admin")):
                granted = await scopes(door, number, role)
                assert ("author" in granted) == is_enough
                # No more than that.
                assert not [scope for scope in granted if scope.startswith("admin")]
                assert not {"account", "webhooks"}.intersection(granted)
            for roles in ((), ("moderator",), ("owner",)):
                assert "author" not in await scopes(door, 23, *roles)


async def test_a_discord_operator_needs_the_role_in_both_places(door: Door) -> None:
    assert (await door.submit(headers=user(7))).status_code == 202
    role_headers = {"Warpboard-Discord-Roles": "creator, admin"}

    async def pauses(more: Mapping[str, str]) -> httpx.Response:
        body = {"reason": "a test on Discord"}
        return await door.http.post(
            "/v1/admin/intake/pause", json=body, headers=user(7, "Ada%20L", **more)
        )

    # A role on Discord alone makes nobody an operator, and neither does one of the log alone.
    assert code(await pauses(role_headers)) == (403, "scope_missing")
    await door.admin("POST", "participants/ada-l/roles", role="moderator", reason="r")
    assert code(await pauses(role_headers)) == (403, "scope_missing")
    await door.admin("POST", "participants/ada-l/roles", role="admin", reason="r")
    assert code(await pauses({})) == (403, "scope_missing")
    assert code(await pauses({"Warpboard-Discord-Roles": "moderator"})) == (403, "scope_missing")
    paused = await pauses(role_headers)
    assert paused.status_code == 200, paused.text
    # Nothing that makes somebody mightier, or outlives the visit.
    for path in ("participants/ada-l/roles", "participants/ada-l/identities"):
        refused = await door.http.post(
            f"/v1/admin/{path}",
            json={"role": "admin", "reason": "r"},
            headers=user(7, "Ada%20L", **role_headers),
        )
        assert code(refused) == (403, "scope_missing"), path
    await door.admin("POST", "participants/ada-l/ban", reason="a test")
    assert code(await pauses(role_headers)) == (403, "user_banned")


async def test_tokens_are_listed_and_revoked_on_discord(door: Door) -> None:
    assert (await door.submit(headers=user(7))).status_code == 202
    created = await door.admin(
        "POST",
        "tokens",
        participant="ada-l",
        name="laptop",
        scopes=["submit"],
        expires_in_days=1,
        reason="r",
    )
    assert created.status_code == 201, created.text
    items = (await door.http.get("/v1/tokens", headers=user(7))).json()["items"]
    assert [token["name"] for token in items] == ["laptop"]
    ended = await door.http.delete(f"/v1/tokens/{items[0]['id']}", headers=user(7))
    assert ended.json()["state"] == "revoked"
    await door.admin("POST", "participants/ada-l/ban", reason="a test")
    assert code(await door.http.get("/v1/tokens", headers=user(7))) == (403, "user_banned")


async def test_a_ban_is_reported_on_discord(door: Door) -> None:
    assert (await door.submit(headers=user(7))).status_code == 202
    banned = await door.admin("POST", "participants/ada-l/ban", reason="a test")
    assert banned.is_success, banned.text
    refused = await door.submit(headers=user(7))
    assert code(refused) == (403, "user_banned")
    assert "a test" in refused.json()["detail"]


async def test_wrong_codes_are_counted_per_participant(door: Door) -> None:
    codes = set()
    for number in range(40):
        refused = await door.http.post(
            "/v1/user/join", json={"code": f"wrong-{number}"}, headers=user(100 + number, "Eve")
        )
        codes.add(code(refused))
    assert (429, "rate_limited") not in codes


async def test_without_a_user_the_edge_is_anonymous(door: Door) -> None:
    assert code(await door.submit(headers=EDGE)) == (401, "missing_credential")
    assert (await door.http.get("/v1/me", headers=user(5))).status_code == 401
    wrong = await door.submit(headers=EDGE | {"Warpboard-Discord-User": "ada"})
    assert code(wrong) == (401, "invalid_credential")
    believed = await door.submit(headers={"Warpboard-Discord-User": "7"})
    assert code(believed) == (401, "missing_credential")
    assert not taken_in(door.log)


def test_a_weak_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NATS_URL", "POSTGRES_DSN", "RANKER_URL"):
        monkeypatch.setenv(f"WARPBOARD_INGEST_{name}", "somewhere")
    for name in ("LISTEN", "OPS_LISTEN"):
        monkeypatch.setenv(f"WARPBOARD_INGEST_{name}", "127.0.0.1:1")
    monkeypatch.setenv("WARPBOARD_INGEST_READER_KEY", "k" * 16)
    monkeypatch.setenv("WARPBOARD_INGEST_EDGE_TOKEN", "short")
    with pytest.raises(Refused, match="EDGE_TOKEN is not a token"):
        load()
    for roles, expected in (
        ("owner", "expected creator, moderator or admin"),
        ("admin", "EDGE_TOKEN: set"),
    ):
        monkeypatch.setenv("WARPBOARD_INGEST_EDGE_TOKEN", "")
        monkeypatch.setenv("WARPBOARD_INGEST_EDGE_ROLES", roles)
        with pytest.raises(Refused, match=expected):
            load()
    for name in ("EDGE_TOKEN", "OPERATOR_TOKEN"):
        monkeypatch.setenv(f"WARPBOARD_INGEST_{name}", "the-same-for-both")
    with pytest.raises(Refused, match="equals the operator token"):
        load()
