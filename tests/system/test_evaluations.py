"""Evaluations on a whole platform with its real agent."""

import json
from typing import Any

import pytest

from tests.support.people import HONEST, Person
from tests.support.platform import Running

pytestmark = pytest.mark.server

WRONG = HONEST.replace("(source)", "(source * 2)")


def evaluate(person: Person, *sources: str, **fields: Any) -> dict[str, Any]:
    """Request an evaluation and return it as it was accepted."""
    items = [{"id": f"candidate {place}", "source": source} for place, source in enumerate(sources)]
    body = {"problem": "identity", "gpu": "CPU", "items": items, **fields}
    answer = person.http.post("/v1/evaluations", json=body)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


def results(person: Person, evaluation: str, query: str = "") -> list[dict[str, Any]]:
    """Read the results until the evaluation is over."""
    path = f"/v1/evaluations/{evaluation}/results?{query}"
    with person.http.stream("GET", path, timeout=90) as stream:
        return [json.loads(line) for line in stream.iter_lines() if line]


def test_many_sources_get_their_verdicts_and_the_best_is_submitted(ada: Person) -> None:
    sources = [f"{HONEST}\n# mine {place}\n" for place in range(5)]
    broken = "def custom_kernel(data):\n    return data +\n"
    evaluation = evaluate(ada, *sources, f"{WRONG}\n# mine\n", f"{broken}# mine\n")
    found = results(ada, evaluation["id"])
    assert [one["number"] for one in found] == [1, 2, 3, 4, 5, 6, 7]
    assert {one["id"]: one["verdict"] for one in found} == {
        **{f"candidate {place}": "passed" for place in range(5)},
        "candidate 5": "wrong_answer",
        "candidate 6": "compile_error",
    }
    assert results(ada, evaluation["id"], "after=5") == found[5:]
    state = ada.http.get(f"/v1/evaluations/{evaluation['id']}").json()
    assert (state["state"], state["completed"], state["failed"]) == ("finished", 7, 0)
    assert state["device_s"] > 0

    # Equal sources are not run again, unless that is asked for.
    again = evaluate(ada, *sources[:2], f"{WRONG}\n# mine\n")
    assert (again["cached"], again["ended"]) == (3, 3)
    known = results(ada, again["id"])
    assert [(one["id"], one["verdict"], one["is_cached"]) for one in known] == [
        ("candidate 0", "passed", True),
        ("candidate 1", "passed", True),
        ("candidate 2", "wrong_answer", True),
    ]
    assert evaluate(ada, sources[0], use_cache=False)["cached"] == 0

    path = f"/v1/evaluations/{evaluation['id']}/items/best/submit"
    answer = ada.http.post(path, json={"mode": "test"})
    assert answer.status_code == 202, answer.text
    number = answer.json()["submissions"][0]["number"]
    assert ada.end(number)["outcome"] == "passed"


def test_a_cancelled_evaluation_ends(platform: Running, ada: Person) -> None:
    slow = "import time\n" + HONEST.replace("    source,", "    time.sleep(0.3)\n    source,")
    evaluation = evaluate(ada, *(f"{slow}# {place}\n" for place in range(30)), use_cache=False)
    path = f"/v1/evaluations/{evaluation['id']}"
    assert ada.http.post(f"{path}/cancel", json={"reason": "enough"}).status_code == 202
    found = results(ada, evaluation["id"])
    assert sorted(one["item"] for one in found) == list(range(30))
    assert found[-1]["outcome"] == "cancelled"
    assert ada.http.get(path).json()["outcome"] == "cancelled"
    assert ada.http.post(f"{path}/cancel", json={}).json()["code"] == "already_ended"
    rebuilt = platform.rebuild()
    assert (rebuilt["is_equal"], rebuilt["differences"]) == (True, [])
