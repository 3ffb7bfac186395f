"""Which submissions may be a parent, and who sees a family, on a real platform."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.people import HONEST
from tests.support.town import CLOSED, OPEN, Town

pytestmark = [pytest.mark.server, pytest.mark.long, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def http(town: Town) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=town.url, timeout=30) as client:
        yield client


class Submitting:
    """Submits to the town with a parent, in the form or in the file."""

    def __init__(self, town: Town, http: httpx.Client) -> None:
        self.town, self.http = town, http

    def submit(
        self, caller: str, parent: object, problem: str = OPEN, *, in_file: bool = False
    ) -> httpx.Response:
        """Submit as a caller, always another source."""
        line = f"#!POPCORN parent {parent}\n" if in_file else ""
        source = f"{line}{HONEST}\n# {caller}, {parent}\n"
        data = {"problem": problem, "mode": "test", "gpu": "CPU"}
        data |= {} if in_file else {"parent": str(parent)}
        files = {"file": ("kernel.py", source.encode())}
        headers = self.town.tokens[caller]
        return self.http.post("/v1/submissions", data=data, files=files, headers=headers)

    def refusal(self, caller: str, parent: object, problem: str = OPEN) -> tuple[int, str, str]:
        """The status, the code and the text of a refusal, without the number."""
        answer = self.submit(caller, parent, problem)
        assert answer.status_code >= 400, answer.text
        body = answer.json()
        assert [error["field"] for error in body["errors"]] == ["parent"]
        return answer.status_code, body["code"], body["detail"].replace(str(parent), "N")


def test_a_parent_is_a_submission_to_the_same_problem_that_its_child_sees(
    town: Town, http: httpx.Client
) -> None:
    submitting, numbers = Submitting(town, http), town.numbers
    # One's own, also a test that nobody else sees, and a ranked one of somebody else.
    for caller, parent in (("ada", "test"), ("ada", "ranked"), ("member", "ranked")):
        answer = submitting.submit(caller, numbers[parent])
        assert answer.status_code == 202, answer.text
    answer = submitting.submit("member", numbers["ranked"], in_file=True)
    assert answer.status_code == 202, answer.text
    # Everybody sees the family, but for those submissions that they may not see.
    own = int(answer.json()["submissions"][0]["number"])
    for caller in ("member", "stranger", "ada"):
        path = f"/v1/submissions/{numbers['ranked']}/lineage"
        items = http.get(path, headers=town.tokens[caller]).json()["items"]
        members = {item["number"]: item for item in items}
        assert (own in members) == (caller == "member")
        assert members[numbers["ranked"]]["generation"] == 0
        if caller == "member":
            (parent,) = members[own]["parents"]
            assert (parent["number"], parent["kind"]) == (numbers["ranked"], "declared")
    # A later number, another problem's submission, and one that is hidden look like a missing one.
    missing = submitting.refusal("stranger", 999_999_999)
    assert missing[:2] == (404, "unknown_submission")
    assert missing[2] == (
        f"parent: N is not a submission to {OPEN} that you can see; name another one, or none"
    )
    for caller, number in (
        ("stranger", numbers["test"]),
        ("stranger", numbers["closed"]),
        ("stranger", own),
        ("ada", numbers["closed"]),
        ("member", own + 100_000),
    ):
        assert submitting.refusal(caller, number) == missing, (caller, number)
    assert submitting.submit("member", numbers["closed"], CLOSED).status_code == 202
    # What is no number at all is a malformed field or line.
    assert submitting.submit("member", "none").json()["errors"][0]["field"] == "parent"
    answer = submitting.submit("member", "none", in_file=True)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_directive")
    assert "such as 1234" in answer.json()["detail"]
