"""A defence is worth what its exploit gains without it: each is switched off, and must be missed.

A defence whose removal nothing notices is untested.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.harness import Warm
from tests.support.rounds import holds_in_a_round

from .corpus import HERE, Cheat, named
from .trials import Ended, Trials

# Large enough for its work, some 3 ms, to stand out among wake-ups on a busy machine.
LARGE = {"size": "512", "budgets": "benchmark=20"}
# Null calls before and after a few calls are enough to know theirs.
SMALL = {"size": "128", "budgets": "benchmark=1"}
# Of so many pairs of runs the ordinary handshake is the longer one. By how much hangs on the
# machine: 28 and 33 us on a quick one, 43 and 66 us on a busy one (2 cores, 2026-11).
NULLS = 4
ROOT = HERE.parent.parent
pytestmark = [pytest.mark.box, pytest.mark.timeout(240), pytest.mark.long]


@pytest.fixture(scope="module")
def whole(warm: Warm) -> Iterator[Trials]:
    """A harness that lacks nothing."""
    with tempfile.TemporaryDirectory() as folder, Trials(Path(folder), warm) as trials:
        yield trials


@dataclass
class Lax:
    """A harness in which each run lacks the defences that its test names."""

    trials: Trials
    defences_file: Path

    def run(self, one: Cheat, *defences: str) -> Ended:
        """How a cheat ends without these defences."""
        self.defences_file.write_text(json.dumps(defences))
        return self.trials.run(one)[-1]


@pytest.fixture(scope="module")
def lax() -> Iterator[Lax]:
    """One harness for all tests of defences: a new one takes four seconds of a processor."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "defences.json")
        with Trials(Path(folder), defences_file=str(file)) as trials:
            yield Lax(trials, file)


@contextmanager
def lacking(*walls: str) -> Iterator[Trials]:
    """A harness that builds its boxes without these walls."""
    with tempfile.TemporaryDirectory() as folder, Trials(Path(folder), without=walls) as trials:
        yield trials


def told(disguise: str, *words: str) -> str:
    """What the command says to somebody with fewer privileges than ours."""
    if os.getuid() != 0:
        pytest.skip("not root, who alone can become somebody else")
    command = [sys.executable, "-m", f"tests.sandbox.disguise.{disguise}", sys.executable]
    words = ("-m", "tests.cheats", "--launcher", "zygote", *words)
    done = subprocess.run([*command, *words], check=False, cwd=ROOT, capture_output=True, text=True)
    return done.stdout + done.stderr


def quick_null_us(run: Ended) -> float:
    """What nine null calls in ten exceed: the handshake that is the platform's."""
    (null_us,) = (case.null_us[0] for case in run.report.cases if case.time_us is not None)
    return null_us


def require_root() -> None:
    if os.getuid() != 0:
        pytest.skip("not root, who alone can build every wall")


@contextmanager
def neighbours() -> Iterator[None]:
    """A process for each core that never rests."""
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


@pytest.mark.parametrize(
    ("defence", "name"),
    [
        ("has_fresh_inputs", "cache_by_pointer"),
        ("poisons", "unwritten_zeros"),
        ("compares_all", "one_element_wrong"),
        ("keeps_inputs_private", "inputs_overwritten"),
    ],
)
def test_a_wrong_answer_passes_without_the_defence(
    defence: str, name: str, whole: Trials, lax: Lax
) -> None:
    one = named(name).like(seed="none")
    assert whole.run(one)[0].report.verdict == "wrong_answer"
    assert lax.run(one, defence).report.verdict == "passed"


@pytest.mark.alone
def test_work_after_the_answer_is_free_under_an_early_stop(whole: Trials, lax: Lax) -> None:
    """Error rate: that of `holds_in_a_round`."""
    early = named("done_early_quiet").like(**LARGE)
    assert whole.run(early)[0].report.verdict in ("wrong_answer", "late_write")

    def is_twice_as_fast() -> bool:
        (honest,) = whole.run(named("honest").like(**LARGE))
        assert honest.report.verdict == "passed", honest.report
        free = lax.run(early, "stops_after_snapshot", "requires_stillness")
        assert free.report.verdict == "passed", free.report
        return min(free.samples_us) < 0.5 * min(honest.samples_us)

    assert holds_in_a_round(is_twice_as_fast)


@pytest.mark.alone
def test_peeking_gains_under_a_late_start(whole: Trials, lax: Lax) -> None:
    """A late clock loses its core before it starts, as it would on a busy machine.

    Error rate: that of `holds_in_a_round`.
    """
    require_root()
    peek = named("peek_spinner")
    # Both start while the machine is quiet.
    whole.run(named("wrong"))
    lax.run(named("wrong"))

    def gains_under_the_late_start_alone() -> bool:
        honest_us = min(whole.run(named("honest"))[0].samples_us)
        strict_us = min(whole.run(peek)[0].samples_us, default=honest_us)
        lax_us = min(lax.run(peek, "starts_before_thaw").samples_us, default=honest_us)
        return lax_us < 0.5 * honest_us and strict_us > 0.85 * honest_us

    with neighbours():
        assert holds_in_a_round(gains_under_the_late_start_alone)


def test_an_answer_given_ahead_counts_without_nonce_and_silence(whole: Trials, lax: Lax) -> None:
    """An alarm more than a wall: the answer that counts is what the memory holds then."""
    ahead = named("dones_ahead")
    assert whole.run(ahead)[0].report.verdict == "protocol"
    late = lax.run(ahead, "has_nonce", "requires_silence")
    assert late.report.verdict in ("wrong_answer", "late_write"), late.report.reason


def test_a_late_writer_is_not_named_without_a_look_back(lax: Lax) -> None:
    late = lax.run(named("done_early"), "requires_stillness")
    assert late.report.verdict in ("wrong_answer", "protocol")


def _drop_from_memory(path: Path) -> None:
    """Let a file come from disk again: after an installation, all of it is in memory."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_cheats_gain_without_their_walls(whole: Trials) -> None:
    """Neither wall is in the way of what the other one holds back."""
    require_root()
    names = (
        *("odd_sockets", "pages_listed", "memory_bomb_files", "content_remembered"),
        *("names_remembered", "watch_folders", "take_aio", "flush_disk"),
        *("evict_files", "dump_core"),
    )
    assert [name for name in names if "GAINED" in whole.run(named(name))[-1].log] == []
    # Found without an import, which would take every worker a second.
    torch = find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    _drop_from_memory(Path(torch.origin).parent / "lib" / "libtorch_cpu.so")
    with lacking("seccomp", "memory", "image") as trials:
        assert [name for name in names if "GAINED" not in trials.run(named(name))[-1].log] == []


@pytest.mark.feature("N17")
@pytest.mark.parametrize(
    ("defence", "name"),
    [
        ("hides_network", "host_addresses"),
        ("limits_addresses", "address_space"),
        pytest.param(
            "pins_cores",
            "every_core",
            marks=pytest.mark.skipif(os.cpu_count() == 1, reason="there is no other core"),
        ),
    ],
)
def test_a_cheat_gains_without_the_defence(
    defence: str, name: str, whole: Trials, lax: Lax
) -> None:
    require_root()
    assert "GAINED" not in whole.run(named(name))[0].log
    assert "GAINED" in lax.run(named(name), defence).log


@pytest.mark.alone
def test_who_takes_all_memory_only_seems_to_crash_where_kills_are_not_attributed(
    whole: Trials, lax: Lax
) -> None:
    require_root()
    bomb = named("memory_bomb")
    assert whole.run(bomb)[0].report.verdict == "out_of_memory"
    killed = lax.run(bomb, "attributes_memory_kills").report
    assert killed.verdict == "crashed"
    assert "SIGKILL" in killed.reason


@pytest.mark.alone
def test_an_answer_that_is_fast_saves_more_beside_an_ordinary_null_worker(
    whole: Trials, lax: Lax
) -> None:
    """What is taken off each call is what the null worker takes, whoever answers.

    Error rate: that of `holds_in_a_round`. Without a difference, five rounds pass in 28 % of runs.
    """
    require_root()
    honest = named("honest").like(**SMALL)

    def is_longer_each_time() -> bool:
        return all(
            quick_null_us(whole.run(honest)[0]) < quick_null_us(lax.run(honest, "has_bare_null"))
            for _ in range(NULLS)
        )

    assert holds_in_a_round(is_longer_each_time)


@pytest.mark.parametrize(
    ("disguise", "walls", "names"),
    [
        # The same user as everybody else, and the same processes in sight.
        ("user", ["namespaces", "landlock"], ["proc_of_everyone"]),
        ("user", ["namespaces", "landlock", "seccomp"], ["network", "ptrace", "privileges"]),
        ("pod", ["landlock"], ["read_files"]),
        # Landlock holds back abstract names alone, a filter without unix sockets every name.
        ("pod", ["seccomp"], ["abstract_socket"]),
    ],
)
def test_a_cheat_gains_from_what_it_shares(
    disguise: str, walls: list[str], names: list[str]
) -> None:
    said = told(disguise, *names, *(word for wall in walls for word in ("--without", wall)))
    for name in names:
        (row,) = [line for line in said.splitlines() if f" {name} " in line]
        assert "FAILED" in row
        assert "GAINED" in row or "output_limit" in row


def test_a_worker_that_cannot_be_frozen_is_not_timed_for_ranks(whole: Trials) -> None:
    """Tier C2 is what the agents refuse to rank."""
    require_root()
    honest = named("honest").like(mode="test")
    assert whole.run(honest)[0].tier == "C1"
    with lacking("freezer") as trials:
        (loose,) = trials.run(honest)
        (refused,) = trials.run(honest.like(level_min="strong"))
    assert (loose.level, loose.tier) == ("medium", "C2")
    assert refused.report.failure_code == "sandbox"
    assert "freezer" in refused.report.reason


# The harness replaces its supervisor after the next two, whose failures are its own.


def test_who_does_not_stop_puts_the_blame_on_the_machine_where_none_is_assigned(lax: Lax) -> None:
    """With the defence it is timed out, as its header says: test_corpus shows that."""
    require_root()
    excused = lax.run(named("killable_wait"), "blames_unstoppable").report
    assert excused.failure_code == "sandbox"
    assert "did not freeze" in excused.reason


def test_an_unsealed_memory_kills_who_reads_it(whole: Trials, lax: Lax) -> None:
    cut = named("truncate")
    assert whole.run(cut)[0].report.verdict == "passed"
    died = lax.run(cut, "seals")
    assert died.report.failure_code == "supervisor"
    assert "SIGBUS" in died.report.reason
