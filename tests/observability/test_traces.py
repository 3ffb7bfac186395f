"""One submission is one trace, from the HTTP request to its rank, also over restarts."""

import signal
from collections.abc import Iterator
from os import kill

import pytest

from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import PATIENT, ROOT, Running
from tests.support.spans import CollectedSpan, Collector, run_collector
from tests.support.waits import until

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long]

SERVICES = ("INGEST", "SCHEDULER", "GPU_AGENT", "RANKER")
STEPS = ["authenticate and parse", "load and resolve", "admit and charge", "store and append"]
EXPORT_S_MAX = 30


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """A collector of traces."""
    with run_collector() as running:
        yield running


@pytest.fixture(scope="module")
def traced(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A platform whose services are traced."""
    switches = {f"WARPBOARD_{service}_TRACING": "true" for service in SERVICES}
    settings = PATIENT | switches | collector.environ
    running = Running(tmp_path_factory.mktemp("traced") / "home", settings)
    try:
        running.up()
        add_problem(running.url, ROOT / "problems" / "identity")
        yield running
    finally:
        running.end()


def tree(spans: list[CollectedSpan]) -> list[str]:
    """The spans of a trace as indented lines of their services and names, by their parents."""
    assert len({span.id for span in spans}) == len(spans), "an id came twice"
    lines = []

    def add(parent: str, depth: int) -> None:
        for span in spans:
            if span.parent == parent:
                service = span.service.removeprefix("warpboard-")
                lines.append(f"{'  ' * depth}{service}: {span.name}")
                add(span.id, depth + 1)

    add("", 0)
    assert len(lines) == len(spans), f"some parents are missing: {spans}"
    return lines


def complete(collector: Collector, trace: str) -> list[CollectedSpan]:
    """The spans of a trace, once its last two services have exported theirs."""

    def has_all() -> bool:
        names = {span.name for span in collector.trace(trace)}
        return names >= {"POST /v1/submissions", "assign", "run", "rank"}

    until(has_all, EXPORT_S_MAX)
    return collector.trace(trace)


def expected(stages: list[str]) -> list[str]:
    """The lines of a submission that was run once."""
    return [
        "ingest: POST /v1/submissions",
        *(f"  ingest: {step}" for step in STEPS),
        "  scheduler: queue",
        "    scheduler: assign",
        "      gpu-agent: run",
        *(f"        gpu-agent: stage {stage}" for stage in stages),
        "        gpu-agent: store and report",
        "        ranker: rank",
    ]


def kill_and_wait(platform: Running, name: str) -> None:
    """Kill a service, and wait until it was started again."""
    before = platform.pid(name)
    assert before is not None
    kill(before, signal.SIGKILL)
    until(lambda: platform.pid(name) not in (None, before), 60)


@pytest.mark.feature("A10", "N19")
def test_one_submission_is_one_trace(traced: Running, collector: Collector) -> None:
    with Person(traced.url, "ada") as ada:
        number = ada.submit(HONEST)
        end = ada.end(number)
    spans = complete(collector, end["id"].replace("-", ""))
    stages = [span.name.removeprefix("stage ") for span in spans if "stage " in span.name]
    assert stages == ["build", "check"]
    assert sorted(tree(spans)) == sorted(expected(stages))
    by_name = {span.name: span for span in spans}
    request, run = by_name["POST /v1/submissions"], by_name["run"]
    assert request.attributes == {"warpboard.number": number, "http.response.status_code": 202}
    assert run.attributes["warpboard.end"] == end["verdict"]
    # Times are those of the work: a stage lies within its run, and the rank after it.
    for stage in stages:
        span = by_name[f"stage {stage}"]
        assert run.began_ns <= span.began_ns <= span.ended_ns <= run.ended_ns
    assert by_name["rank"].ended_ns > by_name[f"stage {stages[-1]}"].ended_ns
    assert by_name["queue"].ended_ns == by_name["assign"].began_ns


def test_a_trace_survives_the_death_of_scheduler_and_ranker(
    traced: Running, collector: Collector
) -> None:
    with Person(traced.url, "bob") as bob:
        # Nobody may take the job before both are gone.
        traced.admin("agents/local/cordon")
        number = bob.submit(HONEST)
        for name in ("scheduler", "ranker"):
            kill_and_wait(traced, name)
        traced.admin("agents/local/release")
        end = bob.end(number)
    spans = complete(collector, end["id"].replace("-", ""))
    lines = tree(spans)
    assert sorted(lines) == sorted(expected(["build", "check"]))


def test_an_evaluation_is_one_trace(traced: Running, collector: Collector) -> None:
    with Person(traced.url, "eve") as eve:
        items = [{"id": str(place), "source": f"{HONEST}# {place}\n"} for place in range(3)]
        body = {"problem": "identity", "gpu": "CPU", "items": items}
        accepted = eve.http.post("/v1/evaluations", json=body)
        assert accepted.status_code == 202, accepted.text
        evaluation = accepted.json()["id"]
        eve.http.get(f"/v1/evaluations/{evaluation}/results", timeout=90)
    trace = evaluation.replace("-", "")

    def is_whole() -> bool:
        """Each service exports its spans when it likes to."""
        spans = collector.trace(trace)
        known = {span.id for span in spans} | {""}
        return "run" in {span.name for span in spans} and all(it.parent in known for it in spans)

    until(is_whole, EXPORT_S_MAX)
    lines = tree(collector.trace(trace))
    assert lines[0] == "ingest: POST /v1/evaluations"
    assert "      gpu-agent: run" in lines


def test_a_refused_request_is_no_trace(traced: Running, collector: Collector) -> None:
    names = len([span for span in collector.spans if span.name.startswith("POST")])
    with Person(traced.url, "mal") as mal:
        answer = mal.http.post("/v1/submissions", data={"problem": "nothing"})
        assert answer.is_client_error
        number = mal.submit(HONEST)
        complete(collector, mal.end(number)["id"].replace("-", ""))
    assert len([span for span in collector.spans if span.name.startswith("POST")]) == names + 1
