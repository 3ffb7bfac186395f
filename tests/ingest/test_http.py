"""The public door: every bad request gets one clear answer, every good one is in the log."""

import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from ingest.http.middleware import SUBMISSION_BYTES_MAX
from ingest.ranker_http import RankerClient, open_client
from ingest.reads.routes import reads_router
from shared import subjects
from shared.blobs import describe_blob
from shared.events import LauncherRegistered, ProblemPublished, SubmissionReceived
from shared.http import install_error_handlers
from shared.source_files import PACKED_MEDIA, SourceFile, pack_files
from tests.ingest.conftest import shares_a_door
from tests.support.door import ADA, FILES, KERNEL, TASK, Door, nobodys_gate, taken_in

pytestmark = pytest.mark.server


async def test_an_accepted_submission_is_in_the_log(door: Door) -> None:
    answer = await door.submit()
    assert answer.status_code == 202
    (receipt,) = answer.json()["submissions"]
    recorded = door.log.since(0)[-1]
    assert isinstance(recorded.fact, SubmissionReceived)
    assert receipt["number"] == recorded.seq
    assert recorded.envelope.aggregate == f"submission.{receipt['id']}"


async def test_no_name_and_no_source_is_in_an_event(door: Door) -> None:
    await door.submit(b"def custom_kernel(data): return 'very-own-trick'\n")
    log_bytes = b"".join(bytes(event.envelope.data) for event in door.log.since(0))
    actors = " ".join(event.envelope.actor for event in door.log.since(0))
    assert b"very-own-trick" not in log_bytes
    # As a word: the digits of an id may spell it.
    assert re.search(r"\bada\b", actors) is None
    assert b'"ada"' not in log_bytes


async def test_a_submission_names_its_requirements(door: Door) -> None:
    requires = b"requires: {count: 2, memory_mib: 9, toolchains: [triton]}"
    await door.publish(FILES | {"warpboard.yml": requires})
    await door.submit(b"//!WARPBOARD compiler: nvrtc\nint x;", "kernel.cu", gpu="H100")
    published, _opened, received = (event.fact for event in door.log.since(1))
    assert isinstance(published, ProblemPublished)
    assert isinstance(received, SubmissionReceived)
    assert published.requires.toolchains == ["triton"]
    assert received.requires.toolchains == ["triton", "nvrtc"]
    assert (received.requires.count, received.requires.memory_mib) == (2, 9)


async def test_a_submission_may_choose_a_launcher(door: Door) -> None:
    registered = LauncherRegistered(
        kind="local", prices={"CPU": 0.0}, agents=["a"], daily_cost_max=1, start_s_max=60
    )
    await door.say(subjects.launcher("local"), registered)
    answer = await door.submit(runner="local")
    assert answer.status_code == 202, answer.text
    *_, received = (event.fact for event in door.log.since(0))
    assert isinstance(received, SubmissionReceived)
    assert received.requires.runner == "local"
    for runner in ("github", "no launcher"):
        refused = await door.submit(runner=runner)
        assert refused.json()["code"] in ("unknown_runner", "invalid_request")


@pytest.mark.feature("P9")
async def test_several_gpu_types_make_several_submissions(door: Door) -> None:
    answer = await door.submit(gpu=["CPU", "h100", "CPU"])
    assert [submission["gpu"] for submission in answer.json()["submissions"]] == ["CPU", "H100"]


@shares_a_door
@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"problem": "nope"}, 404, "unknown_leaderboard"),
        ({"problem": "../../etc"}, 404, "unknown_leaderboard"),
        ({"gpu": "TPU"}, 400, "unknown_gpu"),
        ({"gpu": ""}, 400, "unknown_gpu"),
        ({"mode": "fastest"}, 400, "unknown_mode"),
    ],
)
async def test_a_bad_field_is_refused(
    shared_door: Door, fields: dict[str, str], status: int, code: str
) -> None:
    answer = await shared_door.ask(fields)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (status, code)
    assert isinstance(body["detail"], str)
    assert body["request_id"] == answer.headers["x-request-id"]


@shares_a_door
@pytest.mark.parametrize(
    ("source", "name", "status", "code"),
    [
        (b"", "kernel.py", 400, "empty_file"),
        (b"\xff\xfe\x00", "kernel.py", 400, "not_utf8"),
        (b"#" * 1_000_001, "kernel.py", 413, "file_too_large"),
        (KERNEL, "kernel.exe", 400, "bad_extension"),
        (b"PK", "kernel.zip", 415, "archive_not_supported"),
        (b"#!POPCORN leaderboard other\n" + KERNEL, "kernel.py", 400, "leaderboard_mismatch"),
        (b"#!POPCORN speed 11\n" + KERNEL, "kernel.py", 400, "bad_directive"),
    ],
)
async def test_a_bad_file_is_refused(
    shared_door: Door, source: bytes, name: str, status: int, code: str
) -> None:
    answer = await shared_door.submit(source, name)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert len(shared_door.log.since(0)) == 1


@shares_a_door
@pytest.mark.parametrize("who", ["", "Ada Lovelace", "x" * 33, "ада"])
async def test_a_nameless_request_is_refused(shared_door: Door, who: str) -> None:
    answer = await shared_door.http.post(
        "/v1/submissions",
        data={"problem": "copy"},
        files={"file": ("k.py", KERNEL)},
        headers={b"Warpboard-Participant": who.encode()},
    )
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_request_without_a_file_names_the_field(door: Door) -> None:
    answer = await door.http.post("/v1/submissions", data={"problem": "copy"}, headers=ADA)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "file"
    assert isinstance(answer.json()["detail"], str)


async def test_a_single_case_is_part_of_the_request(door: Door) -> None:
    keyed = {**ADA, "Idempotency-Key": "k1"}
    answer = await door.ask({"mode": "profile", "case": "1"}, headers=keyed)
    assert answer.status_code == 202
    fact = door.log.since(0)[-1].fact
    assert isinstance(fact, SubmissionReceived)
    assert fact.case == 1
    other = await door.ask({"mode": "profile"}, headers=keyed)
    assert other.json()["code"] == "idempotency_key_reused"
    refused = await door.ask({"mode": "ranked", "case": "1"})
    assert refused.json()["errors"][0]["field"] == "case"


async def test_a_precision_is_part_of_a_benchmark_and_fixed_for_ranked_runs(door: Door) -> None:
    answer = await door.ask({"mode": "benchmark", "precision": "2%"})
    assert answer.status_code == 202
    fact = door.log.since(0)[-1].fact
    assert isinstance(fact, SubmissionReceived)
    assert fact.precision == 0.02
    for mode, precision in (("ranked", "2%"), ("benchmark", "50%"), ("benchmark", "fine")):
        refused = await door.ask({"mode": mode, "precision": precision})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"] == "precision"


async def test_an_unknown_field_is_refused(door: Door) -> None:
    answer = await door.ask({"pool": "CPU"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == "pool"


async def test_a_body_over_the_limit_is_cut_off(door: Door) -> None:
    answer = await door.submit(b"#" * (SUBMISSION_BYTES_MAX + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")


async def test_a_repeat_with_its_key_is_the_same_submission(door: Door) -> None:
    headers = ADA | {"Idempotency-Key": "k1"}
    first, second = [await door.submit(headers=headers) for _ in range(2)]
    assert first.json()["submissions"] == second.json()["submissions"]
    assert (first.json()["replayed"], second.json()["replayed"]) == (False, True)
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert len(taken_in(door.log)) == 1


async def test_a_key_with_another_file_is_refused(door: Door) -> None:
    headers = ADA | {"Idempotency-Key": "k1"}
    await door.submit(headers=headers)
    answer = await door.submit(KERNEL + b"#", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")


async def test_a_key_with_another_gpu_type_is_refused(door: Door) -> None:
    headers = ADA | {"Idempotency-Key": "k1"}
    await door.submit(headers=headers, gpu="CPU")
    answer = await door.submit(headers=headers, gpu="H100")
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")


async def test_a_key_belongs_to_its_participant(door: Door) -> None:
    numbers = [
        (
            await door.submit(headers={"Warpboard-Participant": name, "Idempotency-Key": "k1"})
        ).json()["submissions"][0]["number"]
        for name in ("ada", "grace")
    ]
    assert len(set(numbers)) == 2


async def test_publishing_the_same_files_again_makes_no_version(door: Door) -> None:
    answer = await door.publish()
    assert (answer.status_code, answer.json()["is_new"]) == (200, False)


@pytest.mark.feature("C4")
async def test_publishing_other_files_makes_the_next_version(door: Door) -> None:
    answer = await door.publish(FILES | {"reference.py": FILES["reference.py"] + b"# 1\n"})
    assert (answer.status_code, answer.json()["problem_version"]) == (201, 2)


@shares_a_door
@pytest.mark.parametrize(
    "files",
    [
        {"task.yml": b"lang: [", "reference.py": b""},
        {"task.yml": b"\xff", "reference.py": b""},
        {"reference.py": b""},
        FILES | {"task.yml": TASK.replace("tests:", "test:").encode()},
        FILES | {"task.yml": TASK.replace("source: reference.py", "source: ../x.py").encode()},
    ],
)
async def test_an_invalid_problem_is_refused_with_one_sentence(
    shared_door: Door, files: dict[str, bytes]
) -> None:
    answer = await shared_door.publish(files)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_problem")
    assert "task.yml" in answer.json()["detail"]


async def test_reads_without_a_ranker_say_when_to_retry() -> None:
    app = FastAPI()
    install_error_handlers(app)
    async with open_client("http://127.0.0.1:1", "k" * 16) as nobody:
        app.include_router(reads_router(RankerClient(nobody), nobodys_gate()))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
            answer = await http.get("/v1/problems")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


@shares_a_door
@pytest.mark.parametrize(
    "path",
    ["%2e%2e/internal/rejudge-items", "a/%2E%2e/%2e%2e/internal/rejudge-items", "%2e/problems"],
)
async def test_no_path_leads_to_internal_routes(shared_door: Door, path: str) -> None:
    answer = await shared_door.http.get(f"/v1/{path}?problem=copy&from_version=1&select=all")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_an_unknown_path_gets_the_same_form_of_error(door: Door) -> None:
    answer = await door.http.post("/v1/nowhere")
    assert answer.status_code in (404, 405)
    assert isinstance(answer.json()["detail"], str)


async def test_a_file_name_with_half_a_character_is_handled(door: Door) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a\\ud800.py"\r\n\r\n'
        + KERNEL
        + b'\r\n--b\r\nContent-Disposition: form-data; name="problem"\r\n\r\ncopy'
        + b'\r\n--b\r\nContent-Disposition: form-data; name="gpu"\r\n\r\nCPU\r\n--b--\r\n'
    )
    kind = "multipart/form-data; boundary=b; charset=unicode_escape"
    headers = ADA | {"Content-Type": kind}
    answer = await door.http.post("/v1/submissions", content=body, headers=headers)
    assert answer.status_code in (202, 400), answer.text


@shares_a_door
@pytest.mark.parametrize("path", ["problems/%00", "problems/a%3Fb", "problems/%E2%82%AC"])
async def test_an_odd_path_is_forwarded_unchanged(shared_door: Door, path: str) -> None:
    answer = await shared_door.http.get(f"/v1/{path}")
    assert answer.status_code == 404


async def test_every_body_of_the_document_has_an_example(door: Door) -> None:
    document = (await door.http.get("/v1/openapi.json")).json()
    bodies = [
        (path, content, _fields(document, content["schema"]))
        for path, operations in document["paths"].items()
        for operation in operations.values()
        for media, content in operation.get("requestBody", {}).get("content", {}).items()
        if media == "application/json"
    ]
    assert len(bodies) > 25
    for path, content, fields in bodies:
        assert content["example"], path
        assert set(fields) == set(content["example"]), f"{path}: name them in document.json"


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", str(schema.get("anyOf", [{}])[0].get("$ref", ""))).rpartition("/")[2]
    target: Mapping[str, Any] = document["components"]["schemas"][name] if name else schema
    return target.get("properties", {})  # type: ignore[no-any-return]


async def test_a_wrong_method_gets_the_allowed_ones(door: Door) -> None:
    answer = await door.http.put("/v1/tokens")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST"


@pytest.mark.feature("P13")
async def test_a_receipt_shows_the_queue(door: Door) -> None:
    answer = await door.submit()
    (receipt,) = answer.json()["submissions"]
    assert (receipt["queue"]["gpu"], receipt["queue"]["waiting"]) == ("CPU", 0)
    # A place in it is the scheduler's to say.
    assert "position" not in receipt["queue"]


@pytest.mark.feature("N7")
async def test_several_files_are_one_blob_with_the_entry_first(door: Door) -> None:
    await door.publish(FILES | {"warpboard.yml": b"limits: {files: 3}"})
    uploads = [
        ("file", ("kernel.py", KERNEL)),
        ("files", ("lib/tile.cuh", b"int x;\n")),
        ("files", ("helper.py", b"x = 1\n")),
    ]
    fields = {"problem": "copy", "mode": "test", "gpu": "CPU"}
    answers = [
        await door.http.post("/v1/submissions", data=fields, files=files, headers=ADA)
        for files in (uploads, [uploads[0], *reversed(uploads[1:])], uploads[:2], [uploads[0]])
    ]
    assert [answer.status_code for answer in answers] == [202] * 4
    first, same, fewer, single = (received for *_, received in taken_in(door.log))
    assert first.source == same.source != fewer.source
    assert len({it.pooling_digest for it in (first, same, fewer, single)}) == 3
    assert (first.name, first.source.media) == ("kernel.py", PACKED_MEDIA)
    files = [SourceFile(*file) for _, file in uploads]
    assert first.source == describe_blob(pack_files(files), PACKED_MEDIA)
    assert single.source == describe_blob(KERNEL, "text/x-python")


@shares_a_door
@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["helper.py"], "too_many_files"),
        (["../helper.py"], "too_many_files"),
        ([f"h{number}.py" for number in range(16)], "too_many_files"),
    ],
)
async def test_a_problem_takes_one_file_by_default(door: Door, names: list[str], code: str) -> None:
    uploads = [("file", ("kernel.py", KERNEL)), *(("files", (name, b"")) for name in names)]
    fields = {"problem": "copy", "mode": "test", "gpu": "CPU"}
    answer = await door.http.post("/v1/submissions", data=fields, files=uploads, headers=ADA)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
