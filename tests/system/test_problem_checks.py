"""A creator sends one reference, and an agent checks it before it is published."""

from typing import Any

import pytest

from tests.support.people import Person
from tests.support.platform import Running
from tests.support.waits import until

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long]
WITHIN_S = 100.0
ENDS = ("clean", "refused", "failed")
REFERENCE = b"""\
import torch


def generate_input(size: int = 1024, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(size, generator=generator)


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return 2 * data


def check_implementation(user_output, reference_output) -> bool:
    return torch.allclose(user_output, reference_output)
"""
NATIVE = b"""\
#include <vector>
const int LENGTH = 256;
using input_t = std::vector<float>;
using output_t = std::vector<float>;
input_t generate_input(int seed) {
    input_t data(LENGTH);
    for (int i = 0; i < LENGTH; i++) data[i] = float((i * 37 + seed) % 101) / 7;
    return data;
}
output_t ref_kernel(input_t data) {
    for (auto& value : data) value = 2 * value;
    return data;
}
bool check_implementation(output_t output, output_t expected) {
    if (output.size() != expected.size()) return false;
    for (int i = 0; i < LENGTH; i++)
        if (output[i] != expected[i]) return false;
    return true;
}
"""
COPY = "def custom_kernel(data):\n    return 2 * data\n"


def request(person: Person, slug: str, source: bytes, name: str = "reference.py") -> Any:
    """Ask for a check on the processor, and return the answer."""
    answer = person.http.post(
        "/v1/checks", data={"slug": slug, "gpu": ["CPU"]}, files={"files": (name, source)}
    )
    assert answer.status_code == 202, answer.text
    return answer.json()


def read(person: Person, id_: str) -> Any:
    """Read a check."""
    answer = person.http.get(f"/v1/checks/{id_}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def ended(person: Person, id_: str) -> Any:
    """Wait for the end of a check."""
    found: list[Any] = []

    def is_over() -> bool:
        found[:] = [read(person, id_)]
        return found[0]["state"] in ENDS

    until(is_over, WITHIN_S)
    return found[0]


def checked(person: Person, slug: str, source: bytes, name: str = "reference.py") -> Any:
    """Ask for a check, and wait for its end."""
    return ended(person, request(person, slug, source, name)["id"])


def errors(check: Any) -> set[str]:
    """The codes of its errors."""
    return {it["code"] for it in check["findings"] if it["level"] == "error"}


@pytest.mark.feature("C2")
def test_one_reference_is_checked_by_an_agent_and_published(platform: Running, ada: Person) -> None:
    with Person(platform.url, "cora") as cora:
        asked = request(cora, "doubled", REFERENCE)
        assert asked["state"] in ("queued", "assigned", "running"), asked
        # Nobody else sees it, neither before it is published nor after the check.
        assert ada.http.get(f"/v1/checks/{asked['id']}").status_code == 404
        early = cora.http.post(f"/v1/checks/{asked['id']}/publish", json={})
        assert (early.status_code, early.json()["code"]) == (409, "check_failed"), early.text
        found = ended(cora, asked["id"])
        assert (found["state"], found["tested_gpus"]) == ("clean", ["CPU"]), found
        assert cora.http.get("/v1/problems/doubled").status_code == 404
        body = {"deadline": "2100-01-01"}
        answer = cora.http.post(f"/v1/checks/{asked['id']}/publish", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.json()["digest"] == found["digest"]
        published = until_read(ada, "/v1/problems/doubled")
        assert published["check"]["state"] == "clean"
        assert published["untested_gpus"] == []
        assert ada.end(ada.submit(COPY, problem="doubled"))["verdict"] == "passed"


def until_read(person: Person, path: str) -> Any:
    """Wait until the read side has something, and return it."""
    found: list[Any] = []

    def is_there() -> bool:
        answer = person.http.get(path)
        found[:] = [answer.json()]
        return answer.status_code == 200

    until(is_there, WITHIN_S)
    return found[0]


BAD: dict[str, tuple[bytes, set[str]]] = {
    "exits": (
        REFERENCE.replace(b"    return 2 * data", b"    print('bye')\n    import os; os._exit(0)"),
        {"author_fails"},
    ),
    "loops": (REFERENCE.replace(b"    return 2 * data", b"    while True: pass"), {"author_fails"}),
    "lax": (
        REFERENCE.replace(b"return torch.allclose(user_output, reference_output)", b"return True"),
        {"check_takes_zeros"},
    ),
    "random": (
        REFERENCE.replace(b"return 2 * data", b"return 2 * data + torch.rand(data.shape)"),
        {"correct_fails"},
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_reference_is_refused_with_its_codes(platform: Running, name: str) -> None:
    source, codes = BAD[name]
    with Person(platform.url, "cora") as cora:
        found = checked(cora, f"bad-{name}", source)
        assert found["state"] == "refused", found
        assert codes <= errors(found), found["findings"]
        answer = cora.http.post(f"/v1/checks/{found['id']}/publish", json={})
        assert (answer.status_code, answer.json()["code"]) == (409, "check_failed")


def test_a_syntax_error_is_refused_at_once_with_its_line(platform: Running) -> None:
    with Person(platform.url, "cora") as cora:
        answer = cora.http.post(
            "/v1/checks",
            data={"slug": "unparsed", "gpu": ["CPU"]},
            files={"files": ("reference.py", REFERENCE.replace(b"return 2 * data", b"return 2 *"))},
        )
        assert answer.status_code == 422, answer.text
        assert "reference.py, line 10" in answer.text


def test_a_reference_in_cpp_is_its_own_first_solution(platform: Running) -> None:
    with Person(platform.url, "cora") as cora:
        found = checked(cora, "doubled-cpp", NATIVE, "reference.cpp")
        assert found["state"] == "clean", found


@pytest.mark.last
def test_an_author_has_two_open_checks_and_a_missing_gpu_is_told(platform: Running) -> None:
    with Person(platform.url, "carl") as carl:
        for number in range(2):
            answer = carl.http.post(
                "/v1/checks",
                data={"slug": f"waits-{number}", "gpu": ["B200"]},
                files={"files": ("reference.py", REFERENCE)},
            )
            assert answer.status_code == 202, answer.text
            assert "no agent with B200 is alive" in answer.json()["text"]
            assert "send the file again with a GPU type that has one" in answer.json()["text"]
        answer = carl.http.post(
            "/v1/checks",
            data={"slug": "waits-2", "gpu": ["B200"]},
            files={"files": ("reference.py", REFERENCE)},
        )
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_open"), answer.text
