"""What operators are told of their platform."""

from warpboard.domain.answers import Agent, Missing
from warpboard.domain.platform import begin, facts


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


def test_who_comes_for_the_first_time_is_told_where_all_is() -> None:
    said = "\n".join(begin("http://127.0.0.1:8000"))
    for words in ("http://127.0.0.1:8000/docs", "http://127.0.0.1:8000/login", "warpboard submit"):
        assert words in said
