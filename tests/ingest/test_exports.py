"""The export compares ranked submissions with the baselines of KernelBench, by known times."""

import io
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from msgspec import structs

from ingest.popcorn.conversions import leaderboard_id
from shared import events, subjects
from shared.events import Baseline, Fact
from shared.problems.kernelbench import BASELINES
from tests.ingest.ways import Ways
from tests.support.lives import BLOB, Life, live, problem, say
from tests.support.planted import PLANTED, planted_texts

pytestmark = pytest.mark.server
ADD, RELU, NORM = "kernelbench-1-1-add", "kernelbench-1-2-relu", "kernelbench-1-3-norm"
# Of level 10, which is not level 1.
OTHER = "kernelbench-10-1-add"
EAGER_US, COMPILE_US = {ADD: 300.0, RELU: 100.0, OTHER: 50.0}, {ADD: 150.0}


@dataclass(frozen=True)
class ModelLife(Life):
    """A submission to a model; `baseline` names one that the platform runs."""

    problem: str = ADD
    baseline: str = ""
    licence: str = ""

    def _received(self) -> Fact:
        fact = super()._received()
        assert isinstance(fact, events.SubmissionReceived)
        return structs.replace(
            fact, baseline=self.baseline, problem=self.problem, licence=self.licence
        )


def baseline(name: str, slug: str, time_us: float) -> ModelLife:
    return ModelLife(f"{name}-{slug}", "platform:baseline", time_us, problem=slug, baseline=name)


async def read_export(ways: Ways, *slugs: str, is_private: bool) -> list[dict[str, Any]]:
    """Return the rows of an export."""
    body = {
        "leaderboard_ids": [leaderboard_id(slug) for slug in slugs],
        "filename": "models.parquet",
        "private": is_private,
    }
    async with ways.browser("admin", ways.people["admin"].headers) as client:
        response = await client.post("/admin/export", json=body)
    assert response.status_code == 200, response.text
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(
        io.BytesIO(response.content)
    ).to_pylist()
    return rows


async def export(ways: Ways, *slugs: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rows of a private export by problem and participant."""
    rows = await read_export(ways, *slugs, is_private=True)
    return {(row["leaderboard_name"], row["user_id"]): row for row in rows}


async def test_an_export_has_speedups_and_fast_p_of_known_times(ways: Ways) -> None:
    baselines = [Baseline(name=entry.name, file=entry.file, source=BLOB) for entry in BASELINES]
    version = structs.replace(problem(), baselines=baselines)
    for slug in (ADD, RELU, NORM, OTHER):
        await say(ways.reads.log, subjects.problem(slug), version)
    await live(
        ways.reads.log,
        *(baseline("eager", slug, time_us) for slug, time_us in EAGER_US.items()),
        *(baseline("compile", slug, time_us) for slug, time_us in COMPILE_US.items()),
        # Twice as fast as eager and as fast as compile, then slower than eager.
        ModelLife("a1", "ada", 150.0, problem=ADD),
        ModelLife("a2", "ada", 200.0, problem=RELU),
        # Faster than both, and not right.
        ModelLife("g1", "grace", 60.0, problem=ADD),
        ModelLife("g2", "grace", 1.0, problem=RELU, verdict="wrong_answer"),
        ModelLife("g3", "grace", 25.0, problem=OTHER),
        # Right, and not ranked.
        ModelLife("l1", "linus", 10.0, problem=ADD, mode="benchmark"),
    )
    await ways.reads.settle()
    rows = await export(ways, ADD, RELU, NORM, OTHER)
    compared = {
        key: (
            row["correct"],
            [row[f"speedup_{name}"] for name in ("eager", "compile")],
            [row[f"fast_{p}_eager"] for p in (0, 1, 2)],
            [row[f"fast_{p}_compile"] for p in (0, 1, 2)],
        )
        for key, row in rows.items()
    }
    nothing = [None] * 3
    # Two and one of the level's three problems, each as soon as it is faster than p.
    ada = ([2 / 3, 1 / 3, 0.0], [2 / 3, 0.0, 0.0])
    grace = ([1 / 3] * 3, [1 / 3] * 3)
    assert compared == {
        (ADD, "ada"): (True, [2.0, 1.0], *ada),
        (RELU, "ada"): (True, [0.5, None], *ada),
        (ADD, "grace"): (True, [5.0, 2.5], *grace),
        (RELU, "grace"): (False, [None, None], nothing, nothing),
        (OTHER, "grace"): (True, [2.0, None], [1.0, 1.0, 0.0], nothing),
        (ADD, "linus"): (True, [None, None], nothing, nothing),
    }


@pytest.mark.feature("D3")
async def test_a_public_export_names_nobody(ways: Ways) -> None:
    """Its pseudonyms are the same within it, and others in the next export."""
    version = structs.replace(problem(), source_visible="always", publish="always")
    for slug in (ADD, RELU):
        await say(ways.reads.log, subjects.problem(slug), version)
    source = await ways.reads.blobs.put(b"x = 1\n")
    ada, grace = ways.people["owner"].account, ways.people["member"].account
    await live(
        ways.reads.log,
        ModelLife("a1", ada, 150.0, source=source.digest, problem=ADD, name="by ada.py"),
        ModelLife("a2", ada, 200.0, source=source.digest, problem=RELU),
        ModelLife("g1", grace, 60.0, source=source.digest, problem=ADD),
    )
    await ways.reads.settle()
    first, second = [await read_export(ways, ADD, RELU, is_private=False) for _ in range(2)]
    (by_ada, by_grace), (again, _) = (_pseudonyms(rows) for rows in (first, second))
    assert len(first) == 3
    assert by_ada != by_grace
    assert by_ada != again
    assert {(row["user_name"], row["file_name"]) for row in first} == {(None, None)}
    for secret in (ada, grace, "owner", "member", "by ada"):
        assert secret not in str(first)
    private = await export(ways, ADD)
    assert {account for _, account in private} == {ada, grace}


@pytest.mark.feature("D1")
async def test_a_public_export_has_sources_as_a_release_has_them(ways: Ways) -> None:
    """Only under the licence of their authors, and without what people wrote of themselves."""
    await say(
        ways.reads.log,
        subjects.problem(ADD),
        structs.replace(problem(), source_visible="always", publish="always"),
    )
    name, account = "member", ways.people["member"].account
    found = PLANTED | {"name": name, "identity": account, "mention": f"@{name}"}
    source = "".join(f"# {text}\n" for text in planted_texts(found)) + "x = 1\n"
    blob = await ways.reads.blobs.put(source.encode())
    # `platform` chose the licence of the platform, which has no release yet and thus none.
    people = ("member", "owner", "participant", "moderator")
    for who, choice in (("member", "MIT"), ("owner", "none"), ("participant", "default")):
        fact = events.PreferenceSet(preference="licence", value=choice)
        await say(ways.reads.log, subjects.account(ways.people[who].account), fact)
    lives = [
        ModelLife(who, ways.people[who].account, 150.0, source=blob.digest, problem=ADD)
        for who in people
    ]
    own = replace(lives[1], id="own", licence="CC0-1.0")
    await live(ways.reads.log, *lives, own)
    test_run = ModelLife("test", account, 1.0, source=blob.digest, problem=ADD, mode="test")
    await live(ways.reads.log, test_run)
    await ways.reads.settle()
    rows = await read_export(ways, ADD, is_private=False)
    licences = sorted(str(row["licence"]) for row in rows)
    assert licences == ["CC0-1.0", "MIT", "None", "None", "None"]
    assert {row["code"] is None for row in rows if row["licence"] is None} == {True}
    assert {row["mode"] for row in rows} == {"leaderboard"}
    released = [row["code"] for row in rows if row["licence"]]
    for code in released:
        assert "x = 1" in code
        hidden = {account, *(text for kind, text in found.items() if kind != "mention")}
        assert not [secret for secret in hidden if secret.lower() in code.lower()], code
    private = await read_export(ways, ADD, is_private=True)
    assert {row["code"] for row in private} == {source}


def _pseudonyms(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Return those of the participant on both leaderboards and of the one on the first alone."""
    on_add, on_relu = (
        {row["user_id"] for row in rows if row["leaderboard_name"] == slug} for slug in (ADD, RELU)
    )
    (both,), (alone,) = on_add & on_relu, on_add - on_relu
    return both, alone
