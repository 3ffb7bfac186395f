"""Competition files are read in the form of the public sets, and every mistake has its line."""

import pytest

from shared.errors import Refused
from shared.problems.competition import add_competition_gpus, read_competition
from tests.problems.example_set import CONTEST


def test_a_contest_file_names_its_problems() -> None:
    text = CONTEST + "  - {directory: first/more, name: More, gpus: [H100]}\n"
    first, second = read_competition("set.yaml", text.encode()) or []
    assert (first.slug, first.directory, first.gpus) == (
        "add_v2",
        "first/add_py",
        ("H100", "B200_Nebius"),
    )
    assert str(first.deadline_at) == "2099-12-31 07:59:00+00:00"
    assert (second.slug, str(second.deadline_at)) == ("more", "2100-01-02 00:00:00+00:00")


def test_a_deadline_without_a_zone_warns_with_its_instant() -> None:
    (problem,) = read_competition("set.yaml", CONTEST.encode()) or []
    assert problem.warning.endswith("names no zone: it is 2099-12-31 07:59 UTC")
    contest = CONTEST.replace("2099-12-31 7:59", "2099-12-31T07:59:00+02:00")
    (zoned,) = read_competition("set.yaml", contest.encode()) or []
    assert str(zoned.deadline_at) == "2099-12-31 05:59:00+00:00"
    assert zoned.warning == ""
    contest = CONTEST.replace('    deadline: "2099-12-31 7:59" # somewhere\n', "")
    (shared,) = read_competition("set.yaml", contest.encode()) or []
    assert shared.warning == "the deadline 2100-01-02 names no zone: it is 2100-01-02 00:00 UTC"


def test_an_empty_deadline_is_none() -> None:
    contest = CONTEST.replace('"2099-12-31 7:59"', '""').replace('"2100-01-02"', '""')
    (problem,) = read_competition("set.yaml", contest.encode()) or []
    assert problem.deadline_at is None


def test_another_yaml_file_is_no_contest() -> None:
    assert read_competition("x.yaml", b"name: x\n") is None
    assert read_competition("x.yaml", b"# problems: none\nname: x\n") is None


MISTAKES = [
    ('"2099-12-31 7:59"', "soon", "line 8: 'soon' is no deadline"),
    ('"2099-12-31 7:59"', "2099-12-31", "line 8: some readers take '2099-12-31' as a number"),
    ("directory: first/add_py\n    ", "", "line 6: the key 'directory' is missing"),
    ("directory: first/add_py", "directory: ../first", "line 6: '../first' is outside"),
    ("directory: first/add_py", "directory: /etc", "line 6: '/etc' is outside"),
    ("name: add_v2", "name: a b", "line 7: 'a b' is not a leaderboard name"),
    ("    gpus:\n", "    gpu:\n", "unknown key 'gpu' in 'problems.0': did you mean 'gpus'?"),
    ("      - H100\n      - B200_Nebius\n", "      - [H100]\n", "'problems.0.gpus.0'"),
    ("name: First steps\n", "", "the key 'name' is missing"),
    ("description:", "descripton:", "line 4: unknown key 'descripton': did you mean"),
    ('deadline: "2100', 'deadline: x\ndeadline: "2100', "line 4: a second key 'deadline'"),
]


@pytest.mark.parametrize(("old", "new", "words"), MISTAKES)
def test_a_mistake_in_a_contest_has_its_line(old: str, new: str, words: str) -> None:
    assert CONTEST.count(old) == 1
    with pytest.raises(Refused) as caught:
        read_competition("set.yaml", CONTEST.replace(old, new).encode())
    assert caught.value.code == "bad_problem"
    assert words in caught.value.reason


def test_one_name_is_one_problem() -> None:
    text = CONTEST + "  - {directory: other, name: ADD_v2}\n"
    with pytest.raises(Refused, match="line 12: a second problem is named 'add_v2'"):
        read_competition("set.yaml", text.encode())


def test_a_contests_gpus_stand_unless_the_problem_names_its_own() -> None:
    assert add_competition_gpus({"warpboard.yml": b"title: T\n"}, ("H100",)) == {
        "warpboard.yml": b'title: T\ngpus: ["H100"]\n'
    }
    own = {"warpboard.yml": b"gpus: [A100]\n"}
    assert add_competition_gpus(own, ("H100",)) == own
    with pytest.raises(Refused, match="not a GPU type"):
        add_competition_gpus({}, ('H"]',))
