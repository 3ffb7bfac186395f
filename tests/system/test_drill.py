"""A platform that was destroyed is restored elsewhere from its encrypted backup."""

from pathlib import Path

import pytest

from tests.support.servers import skip_without_nats, skip_without_postgres
from tests.system.drill import run_drill

pytestmark = [
    pytest.mark.platform,
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(600),
]


def test_everything_is_there_after_the_drill(tmp_path: Path) -> None:
    skip_without_nats()
    skip_without_postgres()
    tmp_path.chmod(0o711)
    comparisons = run_drill(tmp_path)
    different = [comparison for comparison in comparisons if not comparison.is_equal]
    assert not different, different
    assert {"leaderboards", "accounts", "sources", "audit"} <= {one.name for one in comparisons}
