"""What operators are told of their platform."""

from warpboard.domain.answers import Agent, Missing
from warpboard.domain.platform import difference_lines, facts, rebuild_line

SAID = {"is_equal": False, "seq": 9, "entries": 2, "submissions": 1}


def test_a_machine_without_gpu_and_walls_says_so_with_the_mend() -> None:
    agent = Agent(
        id="a",
        gpu="CPU",
        level="none",
        tier="C2",
        is_alive=True,
        missing=[Missing(wall="uid", reason="not root", mend="run as root")],
        modes=["test"],
        details={"ranked_not_offered": "isolation is none, strong is demanded"},
    )
    assert list(facts([agent])) == [
        "no GPU: the agent offers the device cpu, shown as GPU type CPU",
        "agent a: isolation none, timing tier C2: run only code you trust",
        "  wall uid: missing, not root; to mend it: run as root",
        "  mode ranked is not offered: isolation is none, strong is demanded",
    ]


def test_a_confined_gpu_needs_no_warning() -> None:
    agent = Agent(id="a", gpu="H100", level="strong", tier="G1", modes=["ranked"], is_alive=True)
    assert list(facts([agent])) == ["agent a: isolation strong, timing tier G1"]


def test_an_agent_in_quarantine_says_why() -> None:
    agent = Agent(id="a", gpu="H100", modes=["ranked"], quarantine="ill\x1b", is_alive=True)
    assert "  in quarantine: ill\\x1b" in list(facts([agent]))


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
