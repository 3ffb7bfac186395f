"""A run on a podium is repeated by a second real agent."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.people import Person
from tests.support.waits import until
from tests.system.crew import HIRED, LOCAL, crew_of
from tests.system.test_canaries import REFERENCE, STEADY, TASK

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("servers"),
]

SLUG = "copied"
WITHIN_S = 120.0
# How fast the second agent is on a shared machine is not for this test to say.
SENTENCE = re.compile(r"(not confirmed: [\d.]+ % slower|confirmed) on agent (?P<agent>\S+)")


def test_a_second_agent_repeats_the_run_and_the_row_says_so(tmp_path: Path) -> None:
    task = TASK.replace("ranked_timeout: 60", "ranked_timeout: 6")
    problem = {"task.yml": task, "reference.py": REFERENCE}
    with crew_of(tmp_path, SLUG, problem, WARPBOARD_RANKER_CONFIRMATIONS="true") as crew:
        second = HIRED[0]
        crew.hire(second)
        with Person(crew.running.url, "one") as one:
            number = one.submit(STEADY, "ranked", problem=SLUG)
            assert one.end(number)["outcome"] == "passed"

            def confirmed() -> dict[str, Any]:
                (row,) = one.board(SLUG)
                return row if row["confirmation"] else {}

            row = until(confirmed, within_s=WITHIN_S)
            shown = SENTENCE.fullmatch(row["confirmation"])
            assert shown, row["confirmation"]
            first = one.http.get(f"/v1/submissions/{number}").json()["agent"]
            assert {first, shown["agent"]} == {LOCAL, second}
        assert crew.running.rebuild()["is_equal"]
