"""Quotas: windows, which limit counts, and that no more is ever taken than there is."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given as every
from hypothesis import strategies as st

from ingest.quotas import rules as quotas
from ingest.quotas.rules import OPERATOR_DECIDER, Quota, balance, fold_uses, take, window_end
from shared.errors import Refused
from shared.events import UNLIMITED, Fact, QuotaLimitSet, QuotaReturned, QuotaTaken
from tests.support.scenarios import given

T0 = datetime(2026, 1, 2, 23, 59, 59, tzinfo=UTC)
DAY_S = 86400.0
BUCKET = "matmul.H200.ranked"
NOTHING = Quota()
UNLIMITED_LEVELS: quotas.LimitLevels = ()


def limit(bucket: str, most: int, window_s: float = DAY_S) -> QuotaLimitSet:
    return QuotaLimitSet(bucket=bucket, limit=most, window_s=window_s, reason="tests")


def of(*facts: Fact) -> Quota:
    return fold_uses(NOTHING, facts)


def returned(submission: str) -> QuotaReturned:
    return QuotaReturned(submission=submission, bucket=BUCKET, cost=1, reason="infra_failed")


def general(everybody: Quota, *roles: Quota) -> quotas.LimitLevels:
    return [[role.limits for role in roles], [everybody.limits]]


def taking(own: Quota, levels: quotas.LimitLevels, at: datetime, name: str) -> QuotaTaken:
    (fact,) = take({name: BUCKET}, own, levels, at)
    return fact


def test_nothing_is_used_without_a_limit() -> None:
    assert take({"s1": BUCKET}, NOTHING, UNLIMITED_LEVELS, T0) == []
    assert balance(BUCKET, NOTHING, UNLIMITED_LEVELS, T0) is None


def test_the_last_unit_is_used_once() -> None:
    own = of(limit(BUCKET, 1))
    own = fold_uses(own, [taking(own, UNLIMITED_LEVELS, T0, "s1")])
    with pytest.raises(Refused, match=r"1 of 1 of matmul\.H200\.ranked are used") as refused:
        take({"s2": BUCKET}, own, UNLIMITED_LEVELS, T0)
    assert (refused.value.code, refused.value.retry_after_s) == ("quota_exceeded", 1.0)


def test_a_limit_of_zero_names_no_retry() -> None:
    with pytest.raises(Refused, match="its limit is 0") as refused:
        take({"s1": BUCKET}, NOTHING, general(of(limit(BUCKET, 0))), T0)
    assert refused.value.retry_after_s is None


def test_a_window_ends_at_midnight_in_utc() -> None:
    own = of(limit(BUCKET, 1))
    fact = taking(own, UNLIMITED_LEVELS, T0, "s1")
    assert fact.window_until_at == datetime(2026, 1, 3, tzinfo=UTC)
    later = fold_uses(own, [fact])
    assert taking(later, UNLIMITED_LEVELS, T0 + timedelta(seconds=1), "s2").cost == 1


def test_returned_units_can_be_used_again() -> None:
    own = of(limit(BUCKET, 1))
    own = fold_uses(own, [taking(own, UNLIMITED_LEVELS, T0, "s1"), returned("s1")])
    assert taking(own, UNLIMITED_LEVELS, T0, "s2").submission == "s2"


@pytest.mark.feature("C12")
@pytest.mark.parametrize(
    ("own", "everybody", "most"),
    [
        ({}, {"*.*.*": 5}, 5),
        ({}, {"*.*.*": 5, "*.*.ranked": 4}, 4),
        ({}, {"*.*.ranked": 4, "matmul.*.*": 3}, 3),
        ({}, {"*.H200.ranked": 4, "matmul.*.*": 3}, 4),
        ({}, {BUCKET: 2, "matmul.H200.*": 9}, 2),
        ({"*.*.*": 7}, {BUCKET: 2}, 7),
        ({"softmax.*.*": 7}, {BUCKET: 2}, 2),
        ({}, {"*.*.test": 1}, None),
        ({"*.*.*": UNLIMITED}, {BUCKET: 2}, None),
    ],
)
def test_the_most_specific_own_limit_counts(
    own: dict[str, int], everybody: dict[str, int], most: int | None
) -> None:
    mine, theirs = (of(*(limit(*item) for item in some.items())) for some in (own, everybody))
    limit_found = quotas.limit_for(BUCKET, [[mine.limits], *general(theirs)])
    assert (None if limit_found is None else limit_found.limit) == most


@pytest.mark.parametrize(
    ("own", "roles", "most"),
    [
        ({}, [{"*.*.*": 9}], 9),
        ({}, [{"*.*.test": 9}], 5),
        ({"*.*.*": 7}, [{BUCKET: 9}], 7),
        ({}, [{"*.*.*": 6}, {BUCKET: 8}], 8),
        ({}, [{"*.*.*": 8, BUCKET: 3}, {"*.*.*": 6}], 6),
        ({}, [{BUCKET: 8}, {"*.*.*": UNLIMITED}], None),
        ({}, [{BUCKET: 0}], 0),
    ],
)
def test_limits_of_roles_override_everybodys_and_the_widest_counts(
    own: dict[str, int], roles: list[dict[str, int]], most: int | None
) -> None:
    mine, *theirs = (of(*(limit(*item) for item in some.items())) for some in (own, *roles))
    levels = [[mine.limits], *general(of(limit(BUCKET, 5)), *theirs)]
    limit_found = quotas.limit_for(BUCKET, levels)
    assert (None if limit_found is None else limit_found.limit) == most


@pytest.mark.feature("C12")
def test_a_pattern_limits_each_bucket_separately() -> None:
    everybody = general(of(limit("*.*.ranked", 1)))
    own = fold_uses(NOTHING, [taking(NOTHING, everybody, T0, "s1")])
    (fact,) = take({"s2": "softmax.H200.ranked"}, own, everybody, T0)
    assert fact.bucket == "softmax.H200.ranked"


def test_all_submissions_of_a_request_fit_or_none() -> None:
    everybody = general(of(limit("*.H100.ranked", 0), limit("*.H200.ranked", 5)))
    wishes = {"s1": BUCKET, "s2": "matmul.H100.ranked"}
    with pytest.raises(Refused, match="H100"):
        take(wishes, NOTHING, everybody, T0)


def test_a_lowered_limit_never_leaves_less_than_nothing() -> None:
    own = of(limit(BUCKET, 2))
    for name in ("s1", "s2"):
        own = fold_uses(own, [taking(own, UNLIMITED_LEVELS, T0, name)])
    left = balance(BUCKET, fold_uses(own, [limit(BUCKET, 1)]), UNLIMITED_LEVELS, T0)
    assert left is not None
    assert (left.used, left.remaining) == (2, 0)


def test_forgetting_expired_uses_changes_nothing() -> None:
    own = of(limit(BUCKET, 2))
    facts = [taking(own, UNLIMITED_LEVELS, T0, "s1")]
    later = T0 + timedelta(days=2)
    trimmed = fold_uses(own, facts, later)
    assert not trimmed.taken
    assert balance(BUCKET, trimmed, UNLIMITED_LEVELS, later) == balance(
        BUCKET, fold_uses(own, facts), UNLIMITED_LEVELS, later
    )


def test_a_fast_clock_keeps_uses_that_a_slow_one_counts() -> None:
    own = of(limit(BUCKET, 1))
    facts = [taking(own, UNLIMITED_LEVELS, T0, "s1")]
    with pytest.raises(Refused):
        take({"s2": BUCKET}, fold_uses(own, facts, T0 + timedelta(minutes=5)), UNLIMITED_LEVELS, T0)


def test_the_buckets_in_use_and_the_limits_are_listed() -> None:
    everybody = general(of(limit("*.*.ranked", 3)))
    own = fold_uses(NOTHING, [taking(NOTHING, everybody, T0, "s1")])
    remaining = {
        balance.bucket: balance.remaining for balance in quotas.balances(own, everybody, T0)
    }
    assert remaining == {"*.*.ranked": 3, BUCKET: 2}


def test_the_same_limit_is_recorded_once() -> None:
    command = QuotaLimitSet(bucket=BUCKET, limit=3, window_s=DAY_S, reason="tests")
    given(OPERATOR_DECIDER).when([command]).then(limit(BUCKET, 3))
    given(OPERATOR_DECIDER, limit(BUCKET, 3)).when([command]).then()


@pytest.mark.parametrize(
    "command",
    [
        QuotaLimitSet(bucket="matmul.H200", limit=3, window_s=DAY_S, reason="r"),
        QuotaLimitSet(bucket="matmul.H200.ranked.x", limit=3, window_s=DAY_S, reason="r"),
        QuotaLimitSet(bucket="matmul.H200.profile", limit=3, window_s=DAY_S, reason="r"),
        QuotaLimitSet(bucket="mat*.H200.ranked", limit=3, window_s=DAY_S, reason="r"),
        QuotaLimitSet(bucket=BUCKET, limit=-2, window_s=DAY_S, reason="r"),
        QuotaLimitSet(bucket=BUCKET, limit=3, window_s=0.5, reason="r"),
    ],
)
def test_an_invalid_limit_is_refused(command: QuotaLimitSet) -> None:
    given(OPERATOR_DECIDER).when([command]).then_refused("invalid_request")


@every(
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 5000), st.booleans()), max_size=40),
    st.sampled_from([60.0, 3600.0, 700.5]),
)
def test_no_window_ever_holds_more_than_its_limit(
    most: int, steps: list[tuple[int, bool]], window_s: float
) -> None:
    own, at, live = of(limit(BUCKET, most, window_s)), T0, dict[str, datetime]()
    for index, (wait_s, gives_back) in enumerate(steps):
        at += timedelta(seconds=wait_s)
        live = {name: until for name, until in live.items() if until > at}
        if gives_back and live:
            name = min(live)
            own = fold_uses(own, [returned(name)], at)
            del live[name]
        if len(live) == most:
            with pytest.raises(Refused) as refused:
                taking(own, UNLIMITED_LEVELS, at, f"s{index:03}")
            assert (most == 0) == (refused.value.retry_after_s is None)
            assert (refused.value.retry_after_s or 0) <= window_s
            continue
        fact = taking(own, UNLIMITED_LEVELS, at, f"s{index:03}")
        own = fold_uses(own, [fact], at)
        live[fact.submission] = fact.window_until_at
        left = balance(BUCKET, own, UNLIMITED_LEVELS, at)
        assert left is not None
        assert left.used == len(live) <= most


@every(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)), st.floats(1, 1e7))  # noqa: DTZ001
def test_a_window_ends_after_now_and_within_its_length(naive: datetime, window_s: float) -> None:
    at = naive.replace(tzinfo=UTC)
    end = window_end(at, window_s)
    assert at < end <= at + timedelta(seconds=window_s)
