"""Whole runs through the public entry, and what is left when one is interrupted."""

import asyncio
import gzip
import hashlib
import json
import os
import signal
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from harness import entry
from harness.entry import Harness, Progress, StageFinished, Started, environment, evaluate
from harness.sandbox.linux import descendants, parent_of, started_at
from tests.support.harness import HONEST, REFERENCE, Host
from tests.support.waits import comes_true

pytestmark = pytest.mark.box

SLOW = "import time\n" + HONEST.replace("return", "time.sleep(0.01)\n    return")
HANGS = "import time\ndef custom_kernel(data):\n    time.sleep(60)\n"
DAEMON = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        time.sleep(60)\n"
    "    os._exit(0)\n"
) + HANGS


def test_a_test_run_checks_every_case_and_tells_its_stages(host: Host) -> None:
    report = host.run(HONEST)
    assert (report.verdict, report.stage, report.reason) == ("passed", "check", "every case passed")
    assert [case.name for case in report.cases] == ["size=4 seed=7", "size=8 seed=7"]
    stages = [told.stage for told in host.messages if isinstance(told, StageFinished)]
    assert stages == ["build", "check"]
    assert [told.done for told in host.messages if isinstance(told, Progress)] == [0, 1]


def test_a_run_begins_with_the_commitment_to_its_key(host: Host) -> None:
    report = host.run(HONEST)
    started = host.messages[0]
    assert isinstance(started, Started)
    assert (started.level, started.tier, started.harness) == ("strong", "C1", "2")
    assert started.key_commit == hashlib.sha256(bytes.fromhex(report.key)).hexdigest()
    assert started.environment.items() >= environment().items()
    assert started.environment["referee_priority"] in ("real-time", "normal")


@pytest.mark.feature("P15")
def test_a_benchmark_run_times_every_case_and_keeps_its_samples(host: Host) -> None:
    report = host.run(HONEST, "benchmark")
    timed = [case for case in report.cases if case.stage == "time"]
    kept = json.loads(gzip.decompress((host.out / "samples.json.gz").read_bytes()))["cases"]
    for case in timed:
        assert kept[case.name]["time"]["samples"] == case.samples
        assert case.time_us is not None
        assert case.interval_us is not None
        assert case.interval_us[0] <= case.time_us <= case.interval_us[1]
        assert case.samples >= 15


def test_timing_plans_with_half_of_its_budget(host: Host) -> None:
    host.budgets_s = {"benchmark": 4.0}
    report = host.run(SLOW, "benchmark")
    assert report.verdict == "passed", report.reason


@pytest.mark.feature("P16")
@pytest.mark.long
def test_a_ranked_run_checks_hidden_seeds_too(host: Host) -> None:
    report = host.run(HONEST, "ranked")
    hidden = [case for case in report.cases if case.is_hidden]
    assert report.verdict == "passed"
    assert [case.stage for case in hidden] == ["hidden_check", "hidden_check"]


@pytest.mark.feature("C9")
def test_ranking_by_last_times_the_last_case_alone(host: Host) -> None:
    host.ranking_by = "last"
    report = host.run(HONEST, "benchmark")
    assert {case.name for case in report.cases} == {"size=32 seed=3"}


def test_a_key_repeats_the_inputs_of_an_earlier_run(host: Host) -> None:
    source = "def custom_kernel(data):\n    print(data[0].sum().item())\n    return data[0]\n"
    first = host.run(source)
    again = host.run(source, key=first.key)
    other = host.run(source)
    assert first.log_head == again.log_head
    assert first.log_head != other.log_head


def test_a_hidden_failure_says_its_class_alone(host: Host) -> None:
    source = (
        "calls = []\ndef custom_kernel(data):\n    calls.append(0)\n    assert len(calls) < 8\n"
    )
    report = host.run(source + "    return data[0].clone()\n", "ranked")
    case = next(case for case in report.cases if case.verdict == "crashed")
    assert (case.stage, case.is_hidden, case.message) == ("hidden_check", True, "")
    assert report.reason == "hidden_check failed (crashed) on a hidden case"


def test_what_a_problem_prints_stays_out_of_the_messages(host: Host) -> None:
    host.files["reference.py"] = "print('{\"RunReport\": {}}')\n" + REFERENCE
    assert host.run(HONEST).verdict == "passed"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("def generate_input(size, seed): raise OSError", "generate_input failed on size=4"),
        ("def check_implementation(data, output): 1 / 0", "check_implementation failed on"),
        ("del ref_kernel", "reference.py defines no function ref_kernel"),
        ("import nothing_of_that_name", "reference.py cannot be imported"),
    ],
)
def test_a_broken_problem_is_no_fault_of_the_submission(
    host: Host, broken: str, reason: str
) -> None:
    host.files["reference.py"] = f"{REFERENCE}\n{broken}\n"
    report = host.run(HONEST)
    assert (report.verdict, report.failure_code) == ("", "problem_fault")
    assert reason in report.reason


def test_a_changed_problem_file_is_refused_before_anything_runs(host: Host) -> None:
    request = host.request(HONEST)
    (host.folder / "problem" / "reference.py").write_text("changed")
    report = host.warm.evaluate(request, host.told)
    assert report.failure_code == "problem_fault"
    assert "its manifest says" in report.reason


def test_an_absent_device_is_a_failure_of_the_machine(host: Host) -> None:
    report = host.run(HONEST, device="cuda")
    assert report.failure_code == "device"
    assert "'cuda'" in report.reason


def test_a_machine_without_room_is_a_failure_and_no_error(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(host.folder / "absent"))
    report = asyncio.run(evaluate(host.request(HONEST), host.told))
    assert report.failure_code == "supervisor"
    assert "cannot be started" in report.reason


@pytest.mark.long
def test_an_import_may_take_its_budget_in_every_process(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.budgets_s = {"build": 3.0, "test": 1.0, "ranked": 2.0}
    host.warm.evaluate(host.request(HONEST), host.told)  # a start takes its time, too
    monkeypatch.setattr(entry, "_EXTRA_S", 0.0)
    report = host.run("import time\ntime.sleep(1.6)\n" + HONEST, "ranked")
    assert report.failure_code == "", report.reason


@pytest.mark.long
def test_the_supervisors_own_death_is_reported_with_its_last_words(host: Host) -> None:
    report = host.run(HONEST, key="no hexadecimal digits")
    assert report.failure_code == "supervisor"
    assert "ValueError" in report.reason


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "failures"),
    [
        ("supervisor", ["supervisor"]),
        ("supervisor supervisor", ["supervisor"]),
        ("supervisor zygote", ["supervisor", "sandbox"]),
        ("supervisor zygote zygote", ["supervisor", "sandbox"]),
        ("supervisor zygote zygote zygote zygote", [""]),
    ],
    ids=["supervisor", "run", "zygote", "keeper", "worker"],
)
def test_kill_of_any_process_leaves_none(host: Host, path: str, failures: list[str]) -> None:
    host.budgets_s = {"build": 10.0}
    killed: list[int] = []

    async def kill(message: object) -> None:
        await host.told(message)  # type: ignore[arg-type]  # only messages come here
        if isinstance(message, Progress) and not killed:
            killed.append(_process(path.split()))
            os.kill(killed[0], signal.SIGKILL)

    folders = _folders_of_runs()
    report = asyncio.run(evaluate(host.request(DAEMON), kill))
    assert killed
    assert len(host.seen) >= 6
    assert comes_true(lambda: not host.living())
    assert _folders_of_runs() == folders
    assert report.failure_code in failures


@pytest.mark.long
def test_a_supervisor_that_is_not_ready_in_time_is_ended(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def warmed() -> None:
        async with Harness() as harness:
            monkeypatch.setattr(entry, "READY_S_MAX", 0.0)
            with pytest.raises(entry.SupervisorFailed, match="not ready within"):
                await harness.warm()
            report = await harness.evaluate(host.request(HONEST), host.told)
            assert report.failure_code == "supervisor"
            assert "not ready within" in report.reason
            monkeypatch.undo()
            await harness.warm()
            assert (await harness.evaluate(host.request(HONEST), host.told)).verdict == "passed"

    before = set(descendants(os.getpid()))
    asyncio.run(warmed())
    assert set(descendants(os.getpid())) <= before


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_supervisor_that_is_gone_said_nothing_on_any_loop(
    host: Host, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def asked() -> None:
        gone = await asyncio.create_subprocess_exec("true", stdin=PIPE, stdout=PIPE)
        await gone.wait()
        await entry.exchange_request(gone, host.request(HONEST), host.told, lambda _: None)

    with (
        asyncio.Runner(loop_factory=new_loop) as runner,
        pytest.raises(entry.SupervisorFailed),
    ):
        runner.run(asked())


def _process(path: list[str]) -> int:
    """The last process on a path of programs, each the newest child of the one before."""
    at = os.getpid()
    for name in path:
        below = [pid for pid in descendants(at) if parent_of(pid) == at]
        # Not the highest number: numbers begin again from the lowest.
        named = [pid for pid in below if f"harness.{name}" in _command(pid)]
        at = max(named, key=lambda pid: int(started_at(pid)))
    return at


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


@pytest.mark.long
def test_cancellation_leaves_nothing_but_a_supervisor_for_the_next_run(host: Host) -> None:
    folders = _folders_of_runs()
    asyncio.run(_interrupted_twice(host))
    assert not host.living()
    assert _folders_of_runs() == folders


async def _warmed(harness: Harness, host: Host) -> set[int]:
    """Warm a harness, and return its processes once the zygote's child has found the images."""
    await harness.warm()

    def is_settled() -> bool:
        started = descendants(os.getpid(), host.others)
        return all(os.getpid() in (parent_of(pid), parent_of(parent_of(pid))) for pid in started)

    assert comes_true(is_settled, 60.0)
    return set(descendants(os.getpid(), host.others))


async def _interrupted_twice(host: Host) -> None:
    """Cancel a run and let the listener refuse another, in one harness that takes a third."""

    async def refuse(message: object) -> None:
        await host.told(message)  # type: ignore[arg-type]  # only messages come here
        raise ConnectionError

    async with Harness(spares=0) as harness:
        warm = await _warmed(harness, host)
        await _cancelled(harness, host)
        assert len(host.seen - warm) >= 2
        assert set(descendants(os.getpid(), host.others)) == warm
        with pytest.raises(ConnectionError):
            await harness.evaluate(host.request(DAEMON), refuse)
        assert set(descendants(os.getpid(), host.others)) == warm
        assert (await harness.evaluate(host.request(HONEST), host.told)).verdict == "passed"
        assert warm <= set(descendants(os.getpid(), host.others))
        assert not harness.has_left


_FORGES = """
import sys, time
frame = sys._getframe()
while not hasattr(frame.f_locals.get("self"), "channel"):
    frame = frame.f_back
channel = frame.f_locals["self"].channel
while True:
    channel.write("\\n0123456789abcdef cancelled\\n")
    channel.flush()
    time.sleep(0.001)
"""


@pytest.mark.long
def test_an_author_cannot_say_that_a_cancelled_run_has_ended(host: Host) -> None:
    host.files["reference.py"] = REFERENCE + _FORGES
    asyncio.run(_cancelled_at_its_start(host))
    assert host.seen
    assert not host.living()


async def _cancelled_at_its_start(host: Host) -> None:
    """Cancel a run in the author's code, then also the wait for its end."""
    began = asyncio.Event()

    async def told(message: object) -> None:
        await host.told(message)  # type: ignore[arg-type]  # only messages come here
        began.set()

    async with Harness(spares=0) as harness:
        warm = await _warmed(harness, host)
        for times in (1, 2):
            began.clear()
            run = asyncio.create_task(harness.evaluate(host.request(HONEST), told))
            async with asyncio.timeout(30):
                await began.wait()
            for _ in range(times):
                run.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await run
            left = set(descendants(os.getpid(), host.others))
            assert left == (warm if times == 1 else set())


def test_a_submission_starts_in_an_empty_folder(host: Host) -> None:
    assert host.run("import os\nprint(os.listdir('.'))\n" + HONEST).verdict == "passed"
    assert (host.out / "log.txt").read_text() == "[]\n"


def _folders_of_runs() -> set[Path]:
    return {*Path(tempfile.gettempdir()).glob(f"warpboard-{os.getpid()}-*")}


async def _cancelled(harness: Harness, host: Host) -> None:
    working = asyncio.Event()

    async def told(message: object) -> None:
        await host.told(message)  # type: ignore[arg-type]  # only messages come here
        if isinstance(message, Progress):
            working.set()

    run = asyncio.create_task(harness.evaluate(host.request(DAEMON), told))
    async with asyncio.timeout(30):
        await working.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
