"""Evaluations at the door: accepted whole and once, within the device time of a day."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from harness.vocabulary import EVALUATION_LEVEL_MIN
from ingest.evaluations import rules
from ingest.evaluations.rules import Budget, EvaluationLimits
from ingest.evaluations.service import NewEvaluation
from shared import events, subjects
from shared.api.evaluations import CachedVerdictFound, EvaluationItem, EvaluationResult
from shared.api.submissions import SubmissionRequest
from shared.errors import Refused
from shared.evaluations import read_items
from shared.events import DeviceTimeReserved, DeviceTimeSettled, EvaluationRequested
from tests.ingest.taking_in import ADA, T0, IntakeHarness, open_intake
from tests.support.door import KERNEL
from tests.support.examples import example_event

ITEMS = tuple(
    EvaluationItem(id=f"candidate {number}", source=f"{KERNEL.decode()}# {number}")
    for number in range(3)
)


def asked(
    *items: EvaluationItem, key: str | None = None, mode: str = "test", gpu: str = "CPU"
) -> NewEvaluation:
    request = SubmissionRequest("", b"", "copy", mode, (gpu,))
    return NewEvaluation(ADA, request, items or ITEMS, uses_cache=True, idempotency_key=key)


def requested(run_count: int = 4, sender: str = "t1") -> EvaluationRequested:
    return structs.replace(
        example_event(EvaluationRequested),
        token=sender,
        sources=["x"] * run_count,
        cached=[],
        item_s_max=2.0,
    )


async def facts(intake: IntakeHarness, aggregate: str) -> list[events.Fact]:
    return [event.fact for event in await intake.log.history(aggregate)]


async def code_of(intake: IntakeHarness, new: NewEvaluation) -> str:
    with pytest.raises(Refused) as refused:
        await intake.commands.evaluations.request(new)
    return refused.value.code


async def test_an_evaluation_and_what_it_reserves_are_stored_together() -> None:
    async with open_intake() as intake:
        evaluation = await intake.commands.evaluations.request(asked())
        (request,) = await facts(intake, subjects.evaluation(evaluation.id))
        (reserved,) = await facts(intake, subjects.budget(ADA.id))
        assert isinstance(request, EvaluationRequested)
        assert isinstance(reserved, DeviceTimeReserved)
        assert request.requires.level == EVALUATION_LEVEL_MIN
        assert (reserved.evaluation, len(request.sources)) == (evaluation.id, 3)
        assert reserved.device_s == 3 * min(rules.RESERVED_ITEM_S, request.item_s_max)
        assert (evaluation.state, evaluation.items, evaluation.ended) == ("queued", 3, 0)
        file = await intake.blobs.get(request.source.digest)
        assert read_items(file) == list(ITEMS)


async def test_a_repeat_under_a_key_is_the_same_evaluation() -> None:
    async with open_intake() as intake:
        first = await intake.commands.evaluations.request(asked(key="k"))
        again = await intake.commands.evaluations.request(asked(key="k"))
        assert (first.id, first.version) == (again.id, again.version)
        assert len(await facts(intake, subjects.budget(ADA.id))) == 1
        assert await code_of(intake, asked(ITEMS[0], key="k")) == "idempotency_key_reused"


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (EvaluationItem(id="a", source="x" * 10_000_000), "file_too_large"),
        (EvaluationItem(id="a", source="  "), "empty_file"),
        (EvaluationItem(id="a", source="x", name="kernel.txt"), "bad_extension"),
        (EvaluationItem(id="a", source="#!POPCORN leaderboard other\n"), "leaderboard_mismatch"),
        (EvaluationItem(id="a", source="x", others={"b.py": "y"}), "too_many_files"),
    ],
)
async def test_each_source_must_be_admissible_as_a_submission(
    item: EvaluationItem, code: str
) -> None:
    async with open_intake() as intake:
        assert await code_of(intake, asked(ITEMS[0], item)) == code
        assert await facts(intake, subjects.budget(ADA.id)) == []


@pytest.mark.feature("N7")
def test_items_of_several_files_are_equal_if_all_their_files_are() -> None:
    one = EvaluationItem(id="a", source="import b", others={"b.py": "x", "c.py": "y"})
    entry, *others = one.files
    assert [file.name for file in (entry, *others)] == ["submission.py", "b.py", "c.py"]
    request = rules.item_request(SubmissionRequest("", b"", "copy", "test"), one, "CPU")
    assert request.files == one.files
    digest = rules.source_digest(one)
    same = structs.replace(one, id="b", name="kernel.py", others={"c.py": "y", "b.py": "x"})
    assert rules.source_digest(same) == digest
    for other in (
        structs.replace(one, others={"b.py": "x", "c.py": "z"}),
        structs.replace(one, others={"b.py": "x", "d.py": "y"}),
        structs.replace(one, others={}),
        structs.replace(one, name="kernel.cpp"),
    ):
        assert rules.source_digest(other) != digest


async def test_ids_tell_items_apart() -> None:
    async with open_intake() as intake:
        assert await code_of(intake, asked(ITEMS[0], ITEMS[0])) == "invalid_request"


async def test_a_closed_leaderboard_takes_no_evaluations() -> None:
    async with open_intake() as intake:
        await intake.close_at(T0 + timedelta(hours=1))
        kept = await intake.commands.evaluations.request(asked(key="k"))
        intake.advance(hours=2)
        assert await code_of(intake, asked()) == "deadline_passed"
        # A repeat is answered, too: the request was accepted in time.
        assert (await intake.commands.evaluations.request(asked(key="k"))).id == kept.id


async def test_an_evaluation_is_cancelled_once() -> None:
    async with open_intake() as intake:
        evaluations = intake.commands.evaluations
        id_ = (await evaluations.request(asked())).id
        assert (await evaluations.cancel(id_, ADA, "enough")).event == "EvaluationCancelRequested"
        assert (await evaluations.cancel(id_, ADA, "enough")).event is None
        stranger = replace(ADA, account="account-of-eve")
        with pytest.raises(Refused, match="you have no evaluation"):
            await evaluations.cancel(id_, stranger, "mine now")


async def test_an_item_is_submitted_with_its_own_source() -> None:
    async with open_intake() as intake:
        evaluations = intake.commands.evaluations
        id_ = (await evaluations.request(asked())).id
        (receipt,) = (await evaluations.submit_item(id_, "1", ADA, "ranked", None)).submissions
        (received,) = await facts(intake, subjects.submission(receipt.id))
        assert isinstance(received, events.SubmissionReceived)
        source = await intake.blobs.get(received.source.digest)
        assert (source.decode(), received.mode) == (ITEMS[1].source, "ranked")
        with pytest.raises(Refused, match="the items of this evaluation are 0 to 2"):
            await evaluations.submit_item(id_, "3", ADA, "ranked", None)


def test_the_device_time_of_a_token_is_limited_per_day() -> None:
    limits = EvaluationLimits(token_s_per_day=20.0, account_s_per_day=30.0)
    first = rules.reserve(Budget(), limits, requested(8), "e1", T0)
    budget = rules.fold_budget(Budget(), [first], T0)
    with pytest.raises(Refused, match="this token has used or reserved 16 of 20") as refused:
        rules.reserve(budget, limits, requested(4), "e2", T0)
    assert refused.value.code == "quota_exceeded"
    # T0 is midnight.
    assert refused.value.retry_after_s == 86400.0
    other = rules.reserve(budget, limits, requested(4, "t2"), "e2", T0)
    budget = rules.fold_budget(budget, [other], T0)
    with pytest.raises(Refused, match="your account has used or reserved 24 of 30"):
        rules.reserve(budget, limits, requested(4, "t3"), "e3", T0)
    tomorrow = T0 + timedelta(days=1)
    assert rules.reserve(budget, limits, requested(4), "e2", tomorrow).device_s == 8.0


def test_what_an_evaluation_did_not_use_is_returned() -> None:
    limits = EvaluationLimits(token_s_per_day=20.0)
    first = rules.reserve(Budget(), limits, requested(8), "e1", T0)
    settled = DeviceTimeSettled(evaluation="e1", device_s=3.5)
    budget = rules.fold_budget(Budget(), [first, settled], T0)
    assert rules.reserve(budget, limits, requested(8), "e2", T0).device_s == 16.0


def test_only_so_many_evaluations_are_open() -> None:
    limits = EvaluationLimits(open_max=1)
    first = rules.reserve(Budget(), limits, requested(), "e1", T0)
    budget = rules.fold_budget(Budget(), [first], T0 + timedelta(days=3))
    with pytest.raises(Refused) as refused:
        rules.reserve(budget, limits, requested(), "e2", T0 + timedelta(days=3))
    assert refused.value.code == "too_many_open"
    settled = DeviceTimeSettled(evaluation="e1", device_s=3.5)
    assert rules.fold_budget(budget, [settled], T0 + timedelta(days=3)) == Budget()


def test_known_sources_come_last_and_do_not_run() -> None:
    known = CachedVerdictFound(
        source=rules.source_digest(ITEMS[0]), verdict="passed", results="r", line=4
    )
    items, cached = rules.order_items(ITEMS, {known.source: known})
    assert [item.id for item in items] == ["candidate 1", "candidate 2", "candidate 0"]
    assert [(item.verdict, item.results.digest, item.line) for item in cached] == [
        ("passed", "r", 4)
    ]


def test_the_language_of_a_source_belongs_to_its_digest() -> None:
    python = EvaluationItem(id="a", source="x")
    cpp = EvaluationItem(id="a", source="x", name="a.cpp")
    assert rules.source_digest(python) != rules.source_digest(cpp)


def test_the_best_item_is_the_one_that_is_surely_the_fastest() -> None:
    def result(item: int, verdict: str, *interval: float) -> EvaluationResult:
        low_high = (interval[0], interval[1]) if interval else None
        return EvaluationResult(
            number=item + 1,
            item=item,
            id=str(item),
            outcome="completed",
            verdict=verdict,
            interval=low_high,
        )

    results = [
        result(0, "passed", 1.0, 9.0),
        result(1, "passed", 1.5, 2.0),
        result(2, "wrong_answer", 5.0, 6.0),
        result(3, "passed"),
    ]
    assert rules.find_best(results).item == 1
    with pytest.raises(Refused, match="no item of this evaluation has passed"):
        rules.find_best(results[2:3])
