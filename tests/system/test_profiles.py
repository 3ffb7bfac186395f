"""Profiles by ncu on a whole platform, whose agent has a stand-in for ncu and for the GPU."""

import html
import io
import re
import shutil
import zipfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cheats.test_forged_profiler_errors import FORGED_ERROR, ROWS, STANDIN
from tests.cli.command_runner import run_warpboard
from tests.contract_popcorn.conftest import token_of
from tests.contract_popcorn.polling import read_events
from tests.contract_popcorn.wire import Wire, cli_id, multipart
from tests.support.browser import PASSWORD
from tests.support.people import HONEST, REFERENCE, Person
from tests.support.platform import Running
from tests.support.waits import until
from tests.system import profiling_agent
from tests.system.crew import HIRED, SETTINGS, Crew, crew_of
from tests.system.profiling_agent import GPU

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("servers"),
]

SLUG, AGENT = "copied", HIRED[0]
TASK = f"""
files:
  - {{name: "submission.py", source: "@SUBMISSION@"}}
  - {{name: "reference.py", source: "reference.py"}}
lang: "py"
config: {{main: "eval.py"}}
description: "Copy it."
tests: [{{size: 64, seed: 1}}]
benchmarks: [{{size: 64, seed: 3}}, {{size: 128, seed: 4}}]
test_timeout: 60
benchmark_timeout: 60
ranked_timeout: 60
ranking_by: "geom"
gpus: ["{GPU}"]
"""
# The second of two timed cases, and what ncu captures of it.
FILTERS = {
    "ncu_kernel_name": "regex:copy|two words",
    "ncu_kernel_name_base": "demangled",
    "ncu_launch_count": "3",
}
REPORT = "profile-0-ncu.ncu-rep"
CSRF = re.compile(r'name="csrf" value="([^"]+)"')
NUMBER = re.compile(r"/submissions/(\d+)")


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """A platform with an agent that says that it has a GPU, and has a stand-in for ncu."""
    problem = {"task.yml": TASK, "reference.py": REFERENCE}
    running = Running(tmp_path_factory.mktemp("profiles") / "home", SETTINGS)
    with crew_of(running, SLUG, problem) as crew:
        standin = crew.running.folder / profiling_agent.STANDIN
        standin.mkdir(mode=0o755)
        shutil.copy(STANDIN, standin)
        # A box shows the files that were there when its harness started.
        (standin / "refused").touch()
        (standin / "rows.csv").write_text(ROWS)
        crew.hire(AGENT, module=profiling_agent.__name__)
        yield crew


@pytest.fixture
def standin(crew: Crew) -> Iterator[Path]:
    """The folder of the stand-in for ncu, which counts again afterwards."""
    folder = crew.running.folder / profiling_agent.STANDIN
    yield folder
    (folder / "refused").write_text("")
    (folder / "rows.csv").write_text(ROWS)


@pytest.fixture
def ada(crew: Crew) -> Iterator[Person]:
    """A participant."""
    with Person(crew.running.url, "ada") as person:
        yield person


def profile(person: Person, source: str = HONEST, **fields: str) -> httpx.Response:
    """Submit a profile of one case over HTTP."""
    data = {"problem": SLUG, "mode": "profile", "gpu": GPU, "case": "2"} | fields
    return person.http.post("/v1/submissions", data=data, files={"file": ("k.py", source.encode())})


def profile_when_allowed(person: Person) -> httpx.Response:
    """Submit a profile once the quota of the participant allows it."""
    answers: list[httpx.Response] = []

    def is_accepted() -> bool:
        answers.append(profile(person))
        return answers[-1].status_code == 202

    until(is_accepted)
    return answers[-1]


def end_of(person: Person, answer: httpx.Response) -> dict[str, Any]:
    """Return how an accepted submission ended."""
    assert answer.status_code == 202, answer.text
    return person.end(int(answer.json()["submissions"][0]["number"]))


def report_of(person: Person, number: int) -> str:
    """Return the report of a profile that passed, which has one case."""
    found = person.end(number)
    assert found["verdict"] == "passed", found["reason"]
    names = [file["name"] for file in found["files"]]
    assert REPORT in names
    assert not [name for name in names if name.startswith("profile-1")]
    answer = person.http.get(f"/v1/submissions/{number}/files/{REPORT}")
    assert answer.status_code == 200, answer.text
    return answer.text


def allow_one_profile(crew: Crew, name: str) -> None:
    """Give a participant a quota of one run an hour that is not ranked."""
    bucket = f"{SLUG}.{GPU}.test"
    crew.admin("put", "quota", bucket=bucket, participant=name, limit=1, window_s=3600, reason="t")


@pytest.mark.feature("P8")
def test_http_cli_and_page_choose_what_ncu_captures(
    crew: Crew, ada: Person, tmp_path: Path
) -> None:
    numbers = {}
    answer = profile(ada, **FILTERS)
    assert answer.status_code == 202, answer.text
    numbers["http"] = int(answer.json()["submissions"][0]["number"])

    file = tmp_path / "kernel.py"
    file.write_text(HONEST)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in FILTERS.items()]
    target = ("--leaderboard", SLUG, "--gpu", GPU, "--mode", "profile", "--case", "2")
    where = ("--as", "ada", "--url", crew.running.url)
    result = run_warpboard("submit", file, *target, *words, "--no-wait", *where)
    assert result.exit_code == 0, result.output
    match = re.search(r"submission (\d+)", result.output)
    assert match, result.output
    numbers["cli"] = int(match[1])

    with httpx.Client(base_url=crew.running.url, timeout=30) as browser:
        page = browser.get("/register")
        form = {"name": "grace", "password": PASSWORD, "csrf": _csrf_of(page)}
        assert browser.post("/register", data=form).status_code == 303
        path = f"/problems/{SLUG}/submit"
        form = {"csrf": _csrf_of(browser.get(path)), "filename": "k.py", "code": HONEST}
        form |= {"mode": "profile", "gpu": GPU, "case": "2", "key": "one"} | FILTERS
        answer = browser.post(path, data=form, files={"file": ("", b"")})
        assert answer.status_code == 303, html.unescape(answer.text)
        match = NUMBER.search(answer.headers["location"])
        assert match, answer.headers
        numbers["page"] = int(match[1])

    assert len(set(numbers.values())) == 3
    with Person(crew.running.url, "grace") as grace:
        for way, number in numbers.items():
            first, *_ = report_of(grace if way == "page" else ada, number).splitlines()
            assert " --kernel-name=regex:copy|two words --kernel-name-base=demangled" in first, way
            assert " --launch-count=3 " in first, way


def _csrf_of(page: httpx.Response) -> str:
    match = CSRF.search(page.text)
    assert match, page.text
    return html.unescape(match[1])


def test_the_newest_public_client_gets_the_report_file_with_its_filters(crew: Crew) -> None:
    """Its form has the options as text fields; it unpacks the report from the trace."""
    wire = Wire(crew.running.url, cli_id(token_of(crew.running, "linus")))
    body = multipart(HONEST.encode(), 'filename="k.py"', benchmark_index="1", **FILTERS)
    with wire.opened("POST", f"/profile/{SLUG}/{GPU}", [wire.credential], body) as stream:
        event, data = read_events(stream)[-1]
    assert event == "result", data
    (result,) = data["results"]
    options = {"benchmark_index": 1, **FILTERS, "ncu_launch_count": 3}
    assert result["profile_metadata"]["capture_options"] == options
    ((key, run),) = result["runs"].items()
    assert (key, run["run"]["result"]["benchmark.0.spec"]) == ("profile.1", "size=128 seed=4")
    assert run["profile"]["profiler"] == "Nsight-Compute"
    with zipfile.ZipFile(io.BytesIO(b64decode(run["profile"]["trace"]))) as folder:
        names = folder.namelist()
        (report,) = [name for name in names if name.endswith(".ncu-rep")]
        first, *_ = folder.read(report).decode().splitlines()
    assert {name.partition("-")[2] for name in names} >= {"ncu-details.txt", "ncu-details.csv"}
    assert " --kernel-name=regex:copy|two words" in first


NOTHING_COUNTED = {
    "permission": ("refused", "==ERROR== ERR_NVGPUCTRPERM - no permission", "permission: the"),
    "mig": ("refused", "==ERROR== Profiling is not supported on MIG", "MIG: the GPU is divided"),
    "driver": ("refused", "==ERROR== Cuda driver is not compatible", "driver: it does not fit"),
    "nan": ("rows.csv", f'{ROWS}"1","copy","nan"\n', "no metric of a kernel has a value"),
    "none": ("rows.csv", ROWS.replace("5.1", ""), "no metric of a kernel has a value"),
}


@pytest.mark.parametrize("name", NOTHING_COUNTED)
def test_a_profile_that_counts_nothing_says_why_and_costs_no_quota(
    crew: Crew, standin: Path, name: str
) -> None:
    file, text, cause = NOTHING_COUNTED[name]
    allow_one_profile(crew, name)
    (standin / file).write_text(text)
    with Person(crew.running.url, name) as person:
        found = end_of(person, profile(person))
        assert (found["outcome"], found["code"]) == ("infra_failed", "profiler"), found["reason"]
        assert found["attempt"] == 1
        assert cause in found["reason"]
        # As soon as the quota is given back, it allows another one.
        assert end_of(person, profile_when_allowed(person))["code"] == "profiler"


def test_an_error_that_a_submission_forges_costs_its_quota(crew: Crew) -> None:
    allow_one_profile(crew, "forger")
    with Person(crew.running.url, "forger") as forger:
        found = end_of(forger, profile(forger, FORGED_ERROR))
        assert (found["outcome"], found["verdict"]) == ("failed", "crashed"), found
        assert "ERR_NVGPUCTRPERM" in found["reason"]
        refused = profile(forger)
        assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
