"""What an operator may choose as a canary, and for a rejudge."""

import msgspec
import pytest

from ingest.domain import endings, pools
from shared.errors import Refused
from shared.events import RejudgeRequested, Requires, SubmissionFinished, SubmissionReceived
from shared.testing import example

R = "because"
RECEIVED = msgspec.structs.replace(example(SubmissionReceived), requires=Requires())
ITEM = example(RejudgeRequested).items[0]
PASSED = SubmissionFinished(outcome="passed", is_eligible=True, code="ok", reason="")


@pytest.mark.parametrize("outcome", ["failed", "infra_failed"])
def test_a_canary_must_have_passed(outcome: str) -> None:
    wanted = pools.Canary(RECEIVED.gpu, 60, 1.2)
    ended = SubmissionFinished(outcome=outcome, is_eligible=False, code="c", reason="")
    for history in ([RECEIVED], [RECEIVED, ended]):
        with pytest.raises(Refused, match="must have passed"):
            pools.canary(wanted, "s1", history)


def test_a_canary_is_of_its_pools_gpu_type() -> None:
    assert pools.canary(pools.Canary(RECEIVED.gpu, 60, 1.2), "s1", [RECEIVED, PASSED]).every_s == 60
    with pytest.raises(Refused, match="the pool is of B200"):
        pools.canary(pools.Canary("B200", 60, 1.2), "s1", [RECEIVED, PASSED])


def test_a_canary_takes_no_gang() -> None:
    received = msgspec.structs.replace(RECEIVED, requires=Requires(count=2))
    with pytest.raises(Refused, match="this submission takes 2 GPUs: choose another"):
        pools.canary(pools.Canary(RECEIVED.gpu, 60, 1.2), "s1", [received, PASSED])


DIGESTS = {1: "a", 2: "b", 3: "c"}


@pytest.mark.parametrize(
    ("start", "to", "found"),
    [(None, None, (2, 3)), (1, None, (1, 3)), (None, 2, (1, 2)), (3, 1, (3, 1))],
)
def test_a_rejudge_goes_to_the_newest_version_from_the_one_before(
    start: int | None, to: int | None, found: tuple[int, int]
) -> None:
    wanted = endings.Selection("copy", "all", R, from_version=start, to_version=to)
    assert endings.versions(wanted, DIGESTS) == found


@pytest.mark.parametrize(("start", "to"), [(3, 3), (None, 1), (3, None), (9, 3), (1, 9)])
def test_a_rejudge_between_no_two_versions_is_refused(start: int | None, to: int | None) -> None:
    wanted = endings.Selection("copy", "all", R, from_version=start, to_version=to)
    with pytest.raises(Refused) as refused:
        endings.versions(wanted, DIGESTS)
    assert refused.value.code == "bad_rejudge"


@pytest.mark.parametrize("count", [0, 401])
def test_a_rejudge_of_none_or_too_many_is_refused(count: int) -> None:
    wanted = endings.Selection("copy", "all", R)
    with pytest.raises(Refused, match="selected"):
        endings.requested(wanted, DIGESTS, [ITEM] * count)
    assert len(endings.requested(wanted, DIGESTS, [ITEM] * 400).items) == 400
