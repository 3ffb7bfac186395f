"""Everything is killed at random by a seeded plan; afterwards the log and the projections agree."""

import os
from pathlib import Path

import pytest

from tests.support.servers import skip_without_nats, skip_without_postgres
from tests.system.chaos.ordeal import ACKS, AUDITS, FAILURES, VERDICTS, endure
from tests.system.chaos.plan import plan
from tests.system.chaos.table import repeat, table

pytestmark = pytest.mark.platform

SEED = int(os.environ.get("CHAOS_SEED", "4"))
SECONDS = 12.0
MUTANT_S = 8.0
# What a mutant keeps from its end would be waited for in vain.
MUTANT_REST_S = 10.0


@pytest.mark.feature("N23")
@pytest.mark.long
@pytest.mark.server
@pytest.mark.timeout(420)
# nats-py drops a half-open socket unclosed when its server is killed.
@pytest.mark.filterwarnings("ignore:.*StreamWriter:pytest.PytestUnraisableExceptionWarning")
async def test_whatever_dies_nothing_is_lost_doubled_or_overdue(tmp_path: Path) -> None:
    skip_without_nats()
    skip_without_postgres()
    report = await endure(plan(SEED, SECONDS), tmp_path)
    assert report.is_sound, f"{table(report)}\nrepeat it with: {repeat(report)}"
    assert report.accepted > 0
    assert report.accepted_batches > 0


# What must be found broken by each fault. One platform has all of them: none hides another.
MUTANTS = {"verdicts": VERDICTS, "leases": FAILURES, "archive": AUDITS, "acks": ACKS}


@pytest.mark.long
@pytest.mark.server
@pytest.mark.timeout(420)
@pytest.mark.filterwarnings("ignore:.*StreamWriter:pytest.PytestUnraisableExceptionWarning")
async def test_chaos_sees_each_fault_in_a_service(tmp_path: Path) -> None:
    report = await endure(plan(SEED, MUTANT_S), tmp_path, tuple(MUTANTS), MUTANT_REST_S)
    unseen = [mutant for mutant, name in MUTANTS.items() if not report.found[name]]
    assert not unseen, f"{unseen} went unseen\n{table(report)}"
