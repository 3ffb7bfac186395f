"""Room for submissions: in order, bounded, and said when there is none."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry

from ingest import ranker_http
from ingest.submissions.admission import (
    AdmissionLimits,
    AdmissionMetrics,
    AdmissionQueue,
    GpuQueues,
)
from ingest.submissions.resolution import Upload
from shared.api.queues import Launcher
from shared.api.submissions import SubmissionRequest
from shared.errors import Refused
from shared.events import SubmissionReceived
from tests.ingest.taking_in import ADA, open_intake
from tests.support.api_examples import make_example
from tests.support.door import KERNEL, Queue, taken_in
from tests.support.lives import Life
from tests.support.waits import eventually

OFFERS = (("g++", "ninja", "numpy", "triton"), ("g++", "ninja", "nvcc"))


def submission() -> SubmissionReceived:
    """A submission to the CPU."""
    _, fact = Life("s1").facts()[0]
    assert isinstance(fact, SubmissionReceived)
    return fact


async def test_waiting_requests_are_admitted_in_order() -> None:
    room, came = (
        AdmissionQueue(AdmissionLimits(at_once_max=2, waiting_max=50, of_one_max=52)),
        list[int](),
    )

    async def one(index: int) -> None:
        async with room.admit("ada"):
            came.append(index)
            assert room.under_way <= 2
            await asyncio.sleep(0)

    await asyncio.gather(*(one(index) for index in range(52)))
    assert came == sorted(came)
    assert (room.under_way, room.waiting, room.refused) == (0, 0, 0)


async def test_a_full_line_refuses_requests() -> None:
    room = AdmissionQueue(AdmissionLimits(at_once_max=1, waiting_max=1))
    async with AsyncExitStack() as held:
        await held.enter_async_context(room.admit("ada"))
        second = asyncio.create_task(AsyncExitStack().enter_async_context(room.admit("ada")))
        await eventually(lambda: room.waiting == 1)
        with pytest.raises(Refused, match="send yours again") as refused:
            await held.enter_async_context(room.admit("ada"))
        assert (refused.value.code, refused.value.retry_after_s) == ("queue_full", 2.0)
    await second
    assert (room.under_way, room.waiting, room.refused) == (1, 0, 1)


async def test_waits_are_bounded_and_cancelled_requests_leave_no_gap() -> None:
    room = AdmissionQueue(AdmissionLimits(at_once_max=1, waiting_max=5), wait_s_max=0.01)
    async with room.admit("ada"):
        with pytest.raises(Refused):
            await AsyncExitStack().enter_async_context(room.admit("ada"))
        gone = asyncio.create_task(AsyncExitStack().enter_async_context(room.admit("ada")))
        await eventually(lambda: room.waiting == 1 or gone.done())
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    async with room.admit("ada"):
        assert (room.under_way, room.waiting) == (1, 0)


async def test_one_participant_cannot_fill_the_queue() -> None:
    room = AdmissionQueue(AdmissionLimits(at_once_max=4, waiting_max=4, of_one_max=2))
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(room.admit("eve"))
        with pytest.raises(Refused, match="2 of your submissions") as refused:
            await held.enter_async_context(room.admit("eve"))
        assert refused.value.code == "queue_full"
        await held.enter_async_context(room.admit("ada"))
    async with room.admit("eve"):
        assert (room.under_way, room.refused) == (1, 1)


async def test_a_burst_is_accepted_and_the_excess_leaves_nothing() -> None:
    async with open_intake(
        AdmissionLimits(at_once_max=4, waiting_max=196, open_max=400, of_one_max=230)
    ) as intake:
        problem_blobs = len([blob async for blob in intake.blobs.kept()])
        sources = [f"x = {index}\ndef custom_kernel(data): ...\n".encode() for index in range(230)]
        ends = await asyncio.gather(
            *(intake.submit(source=source) for source in sources), return_exceptions=True
        )
        refused = [source for source in ends if isinstance(source, Refused)]
        assert {source.code for source in refused} == {"queue_full"}
        assert len(refused) == intake.commands.intake.admission.slots.refused == 30
        # An event is the problem's own; each source is sent to two GPU types.
        assert len(intake.log.since(0)) == 1 + (1 + 2) * 200
        blobs = [blob async for blob in intake.blobs.kept()]
        assert len(blobs) == problem_blobs + 200


@pytest.mark.feature("N20")
async def test_a_full_queue_accepts_only_repeats_and_operators() -> None:
    async with open_intake(AdmissionLimits(queued_max=7), Queue(waiting=7)) as intake:
        first = await intake.submit("k", operator="olga")
        assert await intake.refusal() == await intake.refusal("other") == "queue_full"
        assert await intake.submit("k") == first
        registry = CollectorRegistry()
        AdmissionMetrics(intake.commands.intake.admission, registry)
        name = "warpboard_ingest_submissions_refused_total"
        assert registry.get_sample_value(name, {"reason": "queue"}) == 2
        assert registry.get_sample_value(name, {"reason": "slots"}) == 0


async def test_concurrent_requests_share_one_look_at_a_queue() -> None:
    queue = Queue(waiting=6)
    async with open_intake(AdmissionLimits(queued_max=7), queue) as intake:
        looks = (
            intake.commands.intake.admission.queues.report([submission()], waits_for_agent=True)
            for _ in range(50)
        )
        assert {report.refused for report in await asyncio.gather(*looks)} == {None}
        assert queue.asked == 1


async def test_an_unknown_queue_refuses_nobody() -> None:
    async with ranker_http.open_client("http://127.0.0.1:1", "k" * 16) as nobody:
        queues = GpuQueues(ranker_http.RankerClient(nobody), 1)
        assert (await queues.report([submission()], waits_for_agent=False)).refused is None


NOBODY = Queue(state="no_agent", reason="no agent with CPU is alive")


async def test_nobody_who_serves_a_gpu_type_is_a_warning_or_a_refusal() -> None:
    async with open_intake(queue=NOBODY) as intake:
        request = SubmissionRequest("kernel.py", KERNEL, "copy", "test", ("CPU", "H100"))
        careful = structs.replace(request, waits_for_agent=False)
        with pytest.raises(Refused, match="no agent with CPU is alive: a submission waits") as no:
            await intake.commands.intake.submit(Upload(ADA, careful, "http", "k"))
        assert (no.value.code, no.value.retry_after_s) == ("no_agent", None)
        assert not taken_in(intake.log)
        receipts = await intake.commands.intake.submit(Upload(ADA, request, "http", "k"))
        assert [bool(receipt.warning) for receipt in receipts.submissions] == [True, True]
        # What was accepted is answered, whatever a repeat asks for.
        again = await intake.commands.intake.submit(Upload(ADA, careful, "http", "k"))
        assert again.replayed


async def test_a_served_gpu_type_has_no_warning() -> None:
    async with open_intake() as intake:
        request = SubmissionRequest(
            "kernel.py", KERNEL, "copy", "test", ("CPU",), waits_for_agent=False
        )
        receipts = await intake.commands.intake.submit(Upload(ADA, request, "http", None))
        assert [receipt.warning for receipt in receipts.submissions] == [None]


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        (b"import triton\n", ""),
        (b"try:\n    import jax\nexcept ImportError:\n    pass\n", ""),
        (b"def custom_kernel(data):\n    import jax\n", "jax"),
        (b"import jax, cupy.cuda\nimport numpy\n", "jax and cupy"),
        # One agent has triton, the other one nvcc.
        (
            b"import triton\nfrom torch.utils import cpp_extension\ncuda_sources=[]\n",
            "triton and g++ and ninja and nvcc",
        ),
    ],
)
async def test_a_toolchain_that_no_agent_offers_is_refused_with_what_they_offer(
    source: bytes, missing: str
) -> None:
    async with open_intake(queue=Queue(toolchains=OFFERS)) as intake:
        before = len(intake.log.since(0))
        if not missing:
            await intake.submit(source=source)
            return
        with pytest.raises(Refused) as refused:
            await intake.submit(source=source)
        assert (refused.value.code, refused.value.field) == ("toolchain_missing", "file")
        start = f"no agent of CPU has {missing}, which kernel.py needs: use what they offer ("
        assert refused.value.reason.startswith(
            f"{start}g++, ninja, numpy, nvcc, triton), or another GPU"
        )
        assert len(intake.log.since(0)) == before
        assert intake.commands.intake.admission.queues.refused == 0


@pytest.mark.parametrize(
    ("agents", "launched", "missing"),
    [
        (OFFERS, ["jax"], ""),
        ((), ["jax"], ""),
        # Nothing is known about the agents of this launcher.
        (OFFERS, [], ""),
        (OFFERS, ["cupy"], "cupy, g++, ninja, numpy, nvcc, triton"),
        ((), ["cupy"], "cupy"),
    ],
)
async def test_a_toolchain_of_agents_that_start_on_demand_is_one_that_is_offered(
    agents: Sequence[Sequence[str]], launched: list[str], missing: str
) -> None:
    launcher = make_example(Launcher, name="modal", kind="modal", toolchains=launched)
    async with open_intake(queue=Queue(toolchains=agents, launchers=[launcher])) as intake:
        if not missing:
            await intake.submit(source=b"import jax\n")
            return
        with pytest.raises(Refused, match="no agent of CPU has jax") as refused:
            await intake.submit(source=b"import jax\n")
        assert f"use what they offer ({missing})" in refused.value.reason


async def test_without_an_agent_a_submission_waits_for_one_with_its_toolchain() -> None:
    async with open_intake(queue=Queue()) as intake:
        await intake.submit(source=b"import jax\n")
        fact = intake.log.since(0)[-1].fact
        assert isinstance(fact, SubmissionReceived)
        assert fact.requires.toolchains == ["jax"]
