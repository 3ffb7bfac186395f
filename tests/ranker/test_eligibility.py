"""The policy for ranked times, from an operator's settings."""

import pytest

from ranker.domain.conclusion import parse_demand
from shared.errors import Refused


@pytest.mark.parametrize(
    ("level_min", "tiers"),
    [("safe", "C1"), ("strong", ""), ("strong", "C9"), ("strong", "c1")],
)
def test_a_demand_that_means_nothing_is_refused(level_min: str, tiers: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_demand(level_min, tiers, is_loopback=True)
    assert refused.value.code == "bad_settings"


@pytest.mark.parametrize(
    ("level_min", "tiers"), [("strong", "C1 C2"), ("strong", "G0"), ("none", "C1"), ("weak", "C1")]
)
def test_only_a_developers_own_platform_ranks_what_nobody_can_trust(
    level_min: str, tiers: str
) -> None:
    assert parse_demand(level_min, tiers, is_loopback=True).tiers == tuple(tiers.split())
    with pytest.raises(Refused, match="loopback"):
        parse_demand(level_min, tiers, is_loopback=False)
