"""The harness codes that judge are public, and their route serves nothing else."""

import hashlib
import io
import zipfile
from datetime import timedelta
from typing import Any

import httpx
import pytest

from harness.entry import code
from ranker.blobs import collect_blobs
from shared import subjects
from shared.blobs import BLOB_RETENTION_S
from shared.clock import now
from shared.events import HARNESS_CODE, AgentRegistered, AgentRevoked
from tests.support.lives import Life, say
from tests.support.reading import Reads, as_
from tests.support.waits import eventually

pytestmark = pytest.mark.server


async def registered(reads: Reads, agent: str, digest: str, version: str = "2") -> None:
    """Register an agent with a harness code."""
    fact = AgentRegistered(
        gpu="CPU",
        count=1,
        fingerprint="f",
        level="none",
        harness=version,
        details={HARNESS_CODE: digest, "cores": "2"},
        modes=["ranked"],
    )
    await say(reads.log, subjects.agent(agent), fact)


async def list_harnesses(reads: Reads, *digests: str) -> list[Any]:
    """The listed codes, once they are these in this order."""

    async def list_expected() -> list[Any]:
        items: list[Any] = (await reads.get("harnesses"))["items"]
        return items if tuple(item["digest"] for item in items) == digests else []

    return await eventually(list_expected)


async def fetched(reads: Reads, digest: str) -> httpx.Response:
    """The response to an anonymous request for a digest."""
    return await reads.http.get(f"/v1/harnesses/{digest}", headers=as_(None))


async def test_the_harness_code_of_an_agent_is_told_and_can_be_fetched(reads: Reads) -> None:
    blob = await reads.blobs.put(code(), "application/zip")
    await registered(reads, "a1", blob.digest)
    reads.live.agents["a1"] = {"is_free": True, "registration": {"gpu": "CPU"}}
    (harness,) = await list_harnesses(reads, blob.digest)
    name = f"warpboard-harness-2-{blob.digest[:12]}.zip"
    assert (harness["version"], harness["name"]) == ("2", name)
    assert harness["url"] == f"/v1/harnesses/{blob.digest}"
    assert [(a["id"], a["gpu"], a["is_alive"]) for a in harness["agents"]] == [("a1", "CPU", True)]
    answer = await reads.http.get(harness["url"], headers=as_(None))
    assert (answer.status_code, answer.content) == (200, code())
    assert hashlib.sha256(answer.content).hexdigest() == blob.digest
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["etag"] == f'"{blob.digest}"'
    later = now() + timedelta(seconds=2 * BLOB_RETENTION_S)
    await collect_blobs(reads.log, reads.blobs, later, is_trial=False)
    assert (await fetched(reads, blob.digest)).content == code()


async def test_the_newest_registration_is_first_and_who_has_it_now_is_told(reads: Reads) -> None:
    first, second = "a" * 64, "b" * 64
    await registered(reads, "a1", first)
    await registered(reads, "a2", second, "3")
    await registered(reads, "a1", second, "3")
    new, old = await list_harnesses(reads, second, first)
    assert [agent["id"] for agent in new["agents"]] == ["a1", "a2"]
    assert (new["version"], old["version"], old["agents"]) == ("3", "2", [])
    await say(reads.log, subjects.agent("a2"), AgentRevoked(reason="sold"))
    await registered(reads, "a1", first)
    old, new = await list_harnesses(reads, first, second)
    assert [agent["id"] for agent in old["agents"]] == ["a1"]
    assert new["agents"] == []


async def test_no_other_blob_comes_by_a_harness_code_even_if_an_agent_names_it(
    reads: Reads,
) -> None:
    stored = zipfile.ZipFile(held := io.BytesIO(), "w")
    stored.writestr("secret.py", "of somebody's")
    stored.close()
    source = await reads.blobs.put(b"def custom_kernel(data): ...  # nobody else's")
    other = await reads.blobs.put(held.getvalue(), "application/zip")
    await reads.ended(Life("s1", source=source.digest, artefact=other))
    answers = {item: await fetched(reads, item) for item in (source.digest, other.digest, "f" * 64)}
    await registered(reads, "a1", source.digest)
    await registered(reads, "a2", other.digest)
    await registered(reads, "a3", "no digest")
    await list_harnesses(reads, other.digest, source.digest)
    for digest, answer in list(answers.items()):
        assert answer.status_code == 404
        named = await fetched(reads, digest)
        bodies = [item.json() | {"request_id": ""} for item in (named, answer, answers["f" * 64])]
        assert bodies[0] == bodies[1]
        assert bodies[0]["detail"].replace(digest, "f" * 64) == bodies[2]["detail"]
        assert set(named.headers) == set(answers["f" * 64].headers)
        assert (await reads.http.get(f"/v1/harnesses/{digest}")).status_code == 404
    assert (await fetched(reads, "..%2F..%2Fkey")).status_code == 404
