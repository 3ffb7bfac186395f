"""A person's submission beside an evaluation does not wait for the whole of it."""

import pytest

from tests.support.people import HONEST, Person
from tests.support.platform import Running
from tests.support.waits import until
from tests.system.test_evaluations import WRONG, evaluate, results

pytestmark = [pytest.mark.server, pytest.mark.platform, pytest.mark.long]


def test_a_submission_does_not_wait_for_the_whole_of_an_evaluation(
    platform: Running, ada: Person
) -> None:
    crashes = "import os\n\n\ndef custom_kernel(data):\n    os.abort()\n"
    kinds = {3: WRONG, 7: crashes}
    sources = [f"{kinds.get(place % 20, HONEST)}# long {place}\n" for place in range(40)]
    evaluation = evaluate(ada, *sources, use_cache=False)
    path = f"/v1/evaluations/{evaluation['id']}"
    until(lambda: ada.http.get(path).json()["state"] == "running")
    with Person(platform.url, "grace") as grace:
        assert grace.end(grace.submit(HONEST))["outcome"] == "passed"
    assert ada.http.get(path).json()["outcome"] is None, "it waited for the whole evaluation"
    expected = {3: "wrong_answer", 7: "crashed"}
    assert {one["item"]: one["verdict"] for one in results(ada, evaluation["id"])} == {
        place: expected.get(place % 20, "passed") for place in range(40)
    }
