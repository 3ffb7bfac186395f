"""A leaderboard is made with all its settings in one act, and changed by events."""

import asyncio
import dataclasses
import json
from typing import Any

import httpx
import pytest
from hypothesis import given as every
from hypothesis import strategies as st
from msgspec.structs import replace

from ingest.identity.access.feed import FOLD_WAIT_S_MAX
from ingest.problems import commands
from ingest.problems import rules as problems
from ingest.quotas import rules as quotas
from ingest.quotas.rules import Limit
from shared.errors import Refused
from shared.events import LeaderboardChanged, ProblemPublished, QuotaLimitSet
from tests.support.door import ADA, FILES, OPERATOR, Door, report_of
from tests.support.examples import clean_report, example_event
from tests.support.holders import code, role, token
from tests.support.scenarios import given

R = "because"
FIRST = replace(example_event(ProblemPublished), tested_gpus=["CPU", "gpus-1", "A100", "H100"])
OWN = FIRST.gpus[0]
BOTH = LeaderboardChanged(visibility=None, reason=R, gpus=[OWN, "H100"])
GPUS = st.sets(st.sampled_from(["A100", "H100", "CPU"]), min_size=1).map(sorted)


@pytest.mark.parametrize(
    ("history", "gpus", "said"),
    [
        ([FIRST], [OWN, "H100"], [OWN, "H100"]),
        ([FIRST], [OWN.upper()], None),
        ([FIRST, BOTH], [OWN, "h100", "H100"], None),
        ([FIRST, BOTH], ["H100"], ["H100"]),
    ],
)
def test_gpu_types_are_changed_once(
    history: list[Any], gpus: list[str], said: list[str] | None
) -> None:
    change = LeaderboardChanged(visibility=None, reason=R, gpus=said)
    command = commands.Change(R, gpus=tuple(gpus))
    given(problems.PROBLEM_DECIDER, *history).when(command).then(
        *([] if said is None else [change])
    )


@every(GPUS, GPUS, GPUS, st.booleans())
def test_dropping_a_gpu_type_with_entries_needs_force(
    before: list[str], after: list[str], used: list[str], is_forced: bool
) -> None:
    known = LeaderboardChanged(visibility=None, reason=R, gpus=before)
    command = commands.Change(R, gpus=tuple(after), used=frozenset(used), is_forced=is_forced)
    test = given(problems.PROBLEM_DECIDER, FIRST, known).when(command)
    if set(before) & set(used) - set(after) and not is_forced:
        test.then_refused("gpu_has_entries")
        return
    state = problems.PROBLEM_DECIDER.fold([FIRST, known])
    facts = problems.decide(command, state)
    problem = problems.PROBLEM_DECIDER.fold([FIRST, known, *facts])
    assert set(problem.open_gpus) == set(after)
    assert problems.newest_version("a", problem).gpus == list(problem.open_gpus)


def test_a_version_that_drops_a_gpu_type_with_entries_needs_force() -> None:
    second = example_event(ProblemPublished)
    moved = replace(second, digest="other", gpus=["B200"], tested_gpus=["B200"])
    for change, is_refused in (
        (commands.Change(R, used=frozenset([OWN])), True),
        (commands.Change(R, used=frozenset([OWN]), is_forced=True), False),
        (commands.Change(R), False),
    ):
        test = given(problems.PROBLEM_DECIDER, FIRST).when(commands.Publish(moved, change))
        if is_refused:
            test.then_refused("gpu_has_entries")
        else:
            test.then(replace(moved, number=FIRST.number + 1))


UNTESTED = replace(FIRST, tested_gpus=[])


@pytest.mark.parametrize(
    ("history", "command"),
    [
        ([], commands.Publish(UNTESTED)),
        ([FIRST], commands.Publish(replace(UNTESTED, digest="other"))),
        ([FIRST], commands.Change(R, gpus=("B200",))),
        # It is tested where it is not ranked any more.
        (
            [],
            commands.Publish(replace(FIRST, tested_gpus=["CPU"]), commands.Change(R, gpus=("T4",))),
        ),
        ([FIRST, BOTH], commands.Publish(FIRST, commands.Change(R, gpus=("B200",)))),
    ],
)
def test_ranking_where_nothing_was_run_needs_a_flag(
    history: list[Any], command: commands.Publish | commands.Change
) -> None:
    given(problems.PROBLEM_DECIDER, *history).when(command).then_refused("untested_gpus")
    if isinstance(command, commands.Publish):
        change = dataclasses.replace(command.change, allows_untested=True)
        allowed: Any = dataclasses.replace(command, change=change)
    else:
        allowed = dataclasses.replace(command, allows_untested=True)
    assert problems.decide(allowed, problems.PROBLEM_DECIDER.fold(history))


def test_one_tested_gpu_type_is_enough_and_the_others_are_named() -> None:
    version = replace(FIRST, gpus=["CPU", "H100", "B200"], tested_gpus=["CPU"])
    facts = problems.decide(commands.Publish(version), problems.Problem())
    state = problems.PROBLEM_DECIDER.fold(facts)
    assert state.untested_gpus == ["H100", "B200"]
    # Settings that concern no GPU type need no flag, also where nothing was run.
    unlisted = problems.PROBLEM_DECIDER.fold([replace(version, tested_gpus=[])])
    assert problems.decide(commands.Change(R, visibility="closed"), unlisted)


def test_a_later_check_of_the_same_version_counts() -> None:
    version = replace(FIRST, gpus=["H100"], tested_gpus=[])
    again = replace(version, tested_gpus=["CPU"])
    command = commands.Publish(again, commands.Change(R, gpus=("CPU",)))
    (change,) = problems.decide(command, problems.PROBLEM_DECIDER.fold([version]))
    assert isinstance(change, LeaderboardChanged)
    assert (change.gpus, change.tested_gpus) == (["CPU"], ["CPU"])
    assert problems.PROBLEM_DECIDER.fold([version, change]).untested_gpus == []


@pytest.mark.parametrize(
    ("text", "bucket", "limit"),
    [
        ("ranked=10/day", "copy.*.ranked", Limit(10, 86400.0)),
        ("H100.test=60/hour", "copy.H100.test", Limit(60, 3600.0)),
        ("test=0/90s", "copy.*.test", Limit(0, 90.0)),
        ("ranked=none", "copy.*.ranked", Limit(-1, 86400.0)),
    ],
)
def test_a_quota_is_parsed(text: str, bucket: str, limit: Limit) -> None:
    command = quotas.parse_quota("copy", text, R)
    assert (command.bucket, Limit(command.limit, command.window_s)) == (bucket, limit)
    assert quotas.format_quotas("copy", {bucket: limit}) == [text]


@every(st.text(max_size=30))
def test_an_invalid_quota_is_refused_with_the_expected_form(text: str) -> None:
    with pytest.raises(Refused, match="write ranked=10/day"):
        quotas.parse_quota("copy", f"{text}!", R)


@pytest.mark.parametrize(
    ("platform", "wanted", "is_refused"),
    [
        ({}, QuotaLimitSet(bucket="copy.*.ranked", limit=1000, window_s=60.0, reason=R), False),
        (
            {"*.*.ranked": Limit(10, 60.0)},
            QuotaLimitSet(bucket="copy.*.ranked", limit=10, window_s=60.0, reason=R),
            False,
        ),
        (
            {"*.*.ranked": Limit(10, 60.0)},
            QuotaLimitSet(bucket="copy.*.ranked", limit=11, window_s=60.0, reason=R),
            True,
        ),
        # As many in a longer time, and so all of them at once.
        (
            {"*.*.ranked": Limit(10, 60.0)},
            QuotaLimitSet(bucket="copy.*.ranked", limit=20, window_s=120.0, reason=R),
            True,
        ),
        (
            {"*.*.ranked": Limit(10, 60.0)},
            QuotaLimitSet(bucket="copy.*.ranked", limit=10, window_s=120.0, reason=R),
            False,
        ),
        (
            {"*.H100.ranked": Limit(1, 60.0)},
            QuotaLimitSet(bucket="copy.*.ranked", limit=2, window_s=60.0, reason=R),
            True,
        ),
        (
            {"*.*.test": Limit(1, 60.0)},
            QuotaLimitSet(bucket="copy.*.ranked", limit=2, window_s=60.0, reason=R),
            False,
        ),
        (
            {"copy.*.ranked": Limit(1, 60.0)},
            QuotaLimitSet(bucket="copy.*.ranked", limit=-1, window_s=60.0, reason=R),
            True,
        ),
        # They could not take it back.
        ({}, QuotaLimitSet(bucket="copy.*.ranked", limit=0, window_s=60.0, reason=R), True),
    ],
)
def test_authors_cannot_raise_quotas(
    platform: dict[str, Limit], wanted: QuotaLimitSet, is_refused: bool
) -> None:
    facts = [
        QuotaLimitSet(bucket=bucket, limit=limit.limit, window_s=limit.window_s, reason=R)
        for bucket, limit in platform.items()
    ]
    test = given(quotas.AUTHOR_DECIDER, *facts).when([wanted])
    if is_refused:
        test.then_refused("scope_missing")
    assert quotas.decide([wanted], {}) != []


@pytest.mark.server
async def test_a_leaderboard_is_created_in_one_request(door: Door) -> None:
    form: dict[str, Any] = {
        "slug": "whole",
        "visibility": "closed",
        "deadline": "2126-12-01 18:00",
        "gpu": ["h100"],
        "quota": ["ranked=10/day", "H100.test=60/hour"],
        "title": "Copy it whole",
        "ranking_by": "geom",
        "source_visible": "always",
        "publish": "never",
        "licence_submissions": "Apache-2.0",
        "consent": "I agree.\n",
    }
    missing = await door.publish(**form)
    assert code(missing) == (409, "check_missing")
    assert "these files are" in missing.json()["detail"]
    before = len(door.log.since(0))
    answer = await door.publish(headers=OPERATOR, **form, report="", unchecked="by hand")
    assert answer.status_code == 201, answer.text
    untested, warning = answer.json()["warnings"]
    assert "this problem was not run on H100 before it was published" in untested
    assert "taken as 2126-12-01T18:00:00+00:00" in warning
    events = door.log.since(0)[before:]
    assert [event.envelope.type for event in events] == [
        *("LeaderboardChanged", "ProblemPublished", "QuotaLimitSet", "QuotaLimitSet")
    ]
    first = events[1].fact
    assert isinstance(first, ProblemPublished)
    assert (first.unchecked, first.report) == ("by hand", None)
    response = await door.http.get("/v1/leaderboards/whole", headers=OPERATOR)
    assert response.json() == {
        "slug": "whole",
        "title": "Copy it whole",
        "problem_version": 1,
        "visibility": "closed",
        "deadline_at": "2126-12-01T18:00:00Z",
        "is_archived": False,
        "gpus": ["H100"],
        "gpus_closed": [],
        "quotas": ["ranked=10/day", "H100.test=60/hour"],
        "ranking_by": "geom",
        "source_visible": "always",
        "publish": "never",
        "licence": {"submissions": "Apache-2.0"},
        "consent": "CONSENT.md",
        "has_practice": False,
        "contest": "",
    }
    never = await door.http.get("/v1/leaderboards/never", headers=ADA)
    stranger = await door.http.get("/v1/leaderboards/whole", headers=ADA)
    assert stranger.status_code == never.status_code == 404
    assert stranger.json()["detail"] == never.json()["detail"].replace("never", "whole")


@pytest.mark.server
async def test_leaderboards_where_nothing_was_run_are_published_with_a_flag_alone(
    door: Door,
) -> None:
    report = json.loads(report_of(FILES, "far")) | {"tested_gpus": ["CPU"]}
    form: dict[str, Any] = {"slug": "far", "report": json.dumps(report), "gpu": ["H100", "B200"]}
    before = len(door.log.since(0))
    refused = await door.publish(**form)
    assert code(refused) == (409, "untested_gpus")
    assert "H100, B200" in refused.json()["detail"]
    assert len(door.log.since(0)) == before
    answer = await door.publish(**form, allow_untested="true")
    assert answer.status_code == 201, answer.text
    assert "was not run on H100, B200 before" in answer.json()["warnings"][0]
    # The author may not open another one without it either.
    body: dict[str, Any] = {"gpus": ["T4"], "reason": R}
    assert code(await door.admin("PUT", "leaderboards/far", **body)) == (409, "untested_gpus")
    allowed = await door.admin("PUT", "leaderboards/far", **body, allow_untested=True)
    assert allowed.status_code == 200, allowed.text
    assert (await door.admin("PUT", "leaderboards/far", **body | {"gpus": ["CPU"]})).is_success
    # A report cannot claim a GPU type on which no solution passed.
    other = FILES | {"reference.py": FILES["reference.py"] + b"# 2\n"}
    claimed = json.loads(report_of(other, "far")) | {"solutions": []}
    answer = await door.publish(other, slug="far", report=json.dumps(claimed))
    assert code(answer) == (422, "bad_report")


@pytest.mark.server
async def test_an_invalid_setting_changes_nothing(door: Door) -> None:
    before = len(door.log.since(0))
    for field, value, status in (
        ("deadline", "tomorrow", 422),
        ("deadline", "9999-12-31T23:59:59-12:00", 422),
        ("gpu", ">", 422),
        ("gpu", "no.such", 422),
        ("quota", "ranked=many", 422),
        ("quota", "B200.ranked=1/day", 400),
        ("quota", ["CPU.ranked=1/day", "cpu.ranked=2/day"], 422),
        ("title", "\x07", 422),
        ("publish", "always", 422),
        ("colour", "red", 422),
        ("unchecked", "I looked", 422),
    ):
        answer = await door.publish(FILES, ADA, slug="fresh", **{field: value})
        assert answer.status_code == status, answer.text
        assert answer.json()["detail"]
    answer = await door.publish(FILES, ADA, slug="fresh", report="", unchecked="I looked")
    assert code(answer) == (403, "scope_missing")
    assert len(door.log.since(0)) == before


@pytest.mark.server
async def test_a_new_version_needs_a_clean_report(door: Door) -> None:
    other = FILES | {"reference.py": FILES["reference.py"] + b"# 2\n"}
    clean = json.loads(clean_report("copy", other))
    finding = {"code": "entropy_low", "level": "error", "where": "case 0", "text": "8 bits"}
    dirty = clean | {"is_clean": False, "findings": [finding]}
    for report, expected in (
        ("", (409, "check_missing")),
        (report_of(FILES), (409, "check_missing")),
        (json.dumps(dirty), (409, "check_failed")),
        ("{}", (422, "bad_report")),
    ):
        answer = await door.publish(other, report=report)
        assert code(answer) == expected
    assert "8 bits" in (await door.publish(other, report=json.dumps(dirty))).json()["detail"]
    # What is there already needs none.
    assert (await door.publish(report="")).status_code == 200
    assert (await door.publish(other)).json()["problem_version"] == 2
    fact = door.log.since(0)[-1].fact
    assert isinstance(fact, ProblemPublished)
    assert fact.report is not None
    stored_report = await door.commands.problems.ports.blobs.get(fact.report.digest)
    assert json.loads(stored_report)["digest"] == fact.digest


@pytest.mark.server
@pytest.mark.parametrize(
    ("declared", "measured", "gpus", "required"),
    [
        (0, 6000, "CPU, H100", 6000),
        (9000, 6000, "CPU", 9000),
        (0, 600, "CPU", 0),
        (0, 6000, "H100", 0),
        (9000, 6000, "H100", 9000),
    ],
)
async def test_the_larger_of_declared_and_measured_memory_is_required(
    door: Door, declared: int, measured: int, gpus: str, required: int
) -> None:
    text = f"requires: {{memory_mib: {declared}}}\nlimits: {{memory_mib: 2000}}\n"
    text += f"gpus: [{gpus}]\n"
    files = FILES | {"warpboard.yml": text.encode()}
    report = json.loads(report_of(files)) | {"memory_mib": measured}
    await door.publish(files, report=json.dumps(report))
    fact = door.log.since(0)[-1].fact
    assert isinstance(fact, ProblemPublished)
    assert (fact.requires.memory_mib, fact.requires.sandbox_memory_mib) == (required, 2000)


@pytest.mark.server
async def test_a_dropped_gpu_type_accepts_no_submissions(door: Door) -> None:
    number = await door.number(mode="ranked", gpu="H100")
    assert number
    url = "/v1/admin/leaderboards/copy"

    async def change(**changes: Any) -> httpx.Response:
        return await door.http.put(url, json={"reason": R, **changes}, headers=ADA)

    assert code(await change(gpus=["CPU"])) == (409, "gpu_has_entries")
    assert (await change(gpus=["CPU"], force=True)).json()["event"] == "LeaderboardChanged"
    assert code(await door.submit(gpu="H100")) == (400, "unknown_gpu")
    settings = (await door.http.get("/v1/leaderboards/copy")).json()
    assert (settings["gpus"], settings["gpus_closed"]) == (["CPU"], ["H100"])
    # Another version of the same GPU types does not open it again, and says so.
    second = FILES | {"reference.py": FILES["reference.py"] + b"# 2\n"}
    answer = await door.publish(second)
    assert "not the gpus of the files" in answer.json()["warnings"][-1]
    assert code(await door.submit(gpu="H100")) == (400, "unknown_gpu")
    assert (await change(gpus=["CPU", "h100"])).status_code == 200
    assert (await door.submit(gpu="H100")).status_code == 202


@pytest.mark.server
async def test_authors_set_quotas_and_operators_raise_them(
    strict: Door,
) -> None:
    ann = await token(strict, "ann", "author", "account")
    url = "/v1/admin/leaderboards/copy"
    await role(strict, "ann", "creator")
    tight, loose = ({"quotas": [f"ranked={count}/day"], "reason": R} for count in (1, 2))
    # Nobody waits until those hear of it who need not.
    async with asyncio.timeout(0.8 * FOLD_WAIT_S_MAX):
        assert (await strict.http.put(url, json=tight, headers=ann)).status_code == 200
    assert code(await strict.http.put(url, json=loose, headers=ann)) == (403, "scope_missing")
    answer = await strict.http.put(url, json=loose, headers=OPERATOR)
    assert answer.json()["event"] == "QuotaLimitSet"
    again = await strict.http.put(url, json=loose, headers=OPERATOR)
    assert again.json()["event"] is None
    wrong = {"quotas": ["B200.ranked=1/day"], "reason": R}
    assert code(await strict.http.put(url, json=wrong, headers=OPERATOR)) == (400, "unknown_gpu")
