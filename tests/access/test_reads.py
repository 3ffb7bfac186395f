"""Every read by every caller, compared with docs/access.md; no response leaks a secret."""

import re
from collections.abc import Iterator

import httpx
import pytest

from ingest.http.document import read_paths
from tests.access.table import YES, cell, matches_route, table
from tests.support.documents import Document
from tests.support.town import CLOSED, MARK, Town

pytestmark = [pytest.mark.server, pytest.mark.long, pytest.mark.timeout(240)]

READS = table("Reads")
NAMES = {"owner": "ada", "operator's token": "operator"}
# In no response but that of the seals, whose key is public. And the callers who see ada's sources.
SECRETS = re.compile(rb'"(key|seed|secret_seed|secret|token_hash|subject)":|Traceback')
STAFF = ("owner", "moderator", "admin", "operator's token")
# Error messages repeat the requested number or name.
NUMBER = re.compile(r"\d+|[0-9a-f]{8}-[0-9a-f-]{27}")


class Asking:
    """Sends reads as any caller."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.http = httpx.Client(base_url=town.url, timeout=30)
        self.document = Document(self.http.get("/v1/openapi.json").json())

    def headers(self, caller: str) -> dict[str, str]:
        """Return a caller's credentials; histories come as JSON."""
        tokens = {"nobody": {}, "operator": self.town.operator, **self.town.tokens}
        return {"Accept": "application/json", **tokens[NAMES.get(caller, caller)]}

    def get(self, path: str, caller: str) -> httpx.Response:
        """Send a read, with the platform's numbers in its path."""
        town = self.town
        names = {
            "harness": town.harness,
            "evaluation": town.evaluation,
            "release_file": town.release_file,
        }
        url = path.format(**names, **town.numbers)
        answer = self.http.get(url, headers=self.headers(caller))
        media = answer.headers.get("content-type", "")
        self.document.check(("GET", url), answer.status_code, media, answer.content)
        return answer


@pytest.fixture(scope="module")
def asking(town: Town) -> Iterator[Asking]:
    client = Asking(town)
    yield client
    client.http.close()


def test_every_read_is_in_the_table() -> None:
    paths = [route.partition(" ")[2] for route in READS]
    missing = [
        path_ for path_ in read_paths() if not any(matches_route(path_, path) for path in paths)
    ]
    assert not missing, "docs/access.md does not name them"
    unknown = [
        path for path in paths if not any(matches_route(path_, path) for path_ in read_paths())
    ]
    assert not unknown, "docs/access.md names what is not there"


@pytest.mark.feature("A12")
@pytest.mark.parametrize("route", READS)
def test_each_caller_reads_what_the_table_says(asking: Asking, route: str) -> None:
    path, expected = route.partition(" ")[2], READS[route]
    answers = {caller: asking.get(path, caller) for caller in expected}
    cells = {caller: cell(answer.status_code) for caller, answer in answers.items()}
    assert cells == expected
    for caller, answer in answers.items():
        assert caller == "nobody" or answer.headers["cache-control"] == "no-store"
        # The key of the seals and the harness code are public.
        is_public = path.startswith(("/v1/audit/", "/v1/harnesses/"))
        assert is_public or not SECRETS.search(answer.content), f"{caller}: {answer.text}"
        assert caller in STAFF or MARK not in answer.text, caller
        if CLOSED not in path and "{closed}" not in path and expected[caller] == YES:
            is_seeing = READS[f"GET /v1/problems/{CLOSED}"][caller] == YES
            assert is_seeing or f'"{CLOSED}"' not in answer.text, f"{caller} hears of {CLOSED}"


@pytest.mark.parametrize(
    "route", [response for response in READS if "{closed}" in response or CLOSED in response]
)
def test_a_closed_problem_looks_like_a_missing_one(asking: Asking, route: str) -> None:
    path = route.partition(" ")[2]
    never = path.replace(CLOSED, "never").replace("{closed}", "999999")
    for caller in ("nobody", "stranger", "creator", "elsewhere"):
        closed, absent = asking.get(path, caller), asking.get(never, caller)
        responses = [
            (
                response.status_code,
                response.json()["code"],
                NUMBER.sub("#", response.json()["detail"]),
            )
            for response in (closed, absent)
        ]
        normalized = [
            (status, code, text.replace("never", CLOSED)) for status, code, text in responses
        ]
        assert normalized[0] == normalized[1], f"{caller}: {closed.text}"
        names = [set(response.headers) for response in (closed, absent)]
        assert names[0] == names[1]
