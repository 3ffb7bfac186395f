"""What operators are told of their platform."""

from warpboard.domain.answers import Agent
from warpboard.domain.platform import difference_lines, facts, rebuild_line

SAID = {"is_equal": False, "seq": 9, "entries": 2, "submissions": 1}


def test_a_machine_without_gpu_and_sandbox_says_so() -> None:
    cpu, isolation = facts([Agent(id="a", gpu="CPU", level="none", is_alive=True)])
    assert cpu == "no GPU: the agent offers the device cpu, shown as GPU type CPU"
    assert isolation.startswith("isolation level none until the sandbox is there")


def test_a_confined_gpu_needs_no_warning() -> None:
    assert list(facts([Agent(id="a", gpu="H100", level="strong", is_alive=True)])) == []


def test_a_silent_agent_is_none() -> None:
    (line,) = facts([Agent(id="a", gpu="CPU", level="none")])
    assert "submissions wait" in line


def test_a_rebuild_tells_whether_it_is_equal() -> None:
    assert rebuild_line(SAID | {"is_equal": True}).startswith("rebuilt from event 1: equal ")
    assert rebuild_line(SAID) == (
        "rebuilt from event 1: NOT equal (up to event 9: 2 entries, 1 submission)"
    )


def test_each_difference_has_a_line() -> None:
    difference = {"kind": "entry", "live": {"number": 1}, "rebuilt": None}
    assert list(difference_lines(SAID | {"differences": [difference]})) == [
        "entry: live {'number': 1}, rebuilt None"
    ]
