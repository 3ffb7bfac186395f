"""The sources and results of `warpboard evaluate`: wrong lines, and files that a kill cut off."""

import json
from pathlib import Path

import pytest

from shared.errors import Refused
from tests.cli.command_runner import run_warpboard
from warpboard.evaluation_files import ResultFile, ResultLine, SourceFile
from warpboard.files import find_named_problem

GOOD = '{"id": "a", "source": "x = 1"}'


def make_result(id_: str) -> ResultLine:
    return ResultLine(
        id=id_, verdict="passed", reason="every case passed", mode="test", reward=None
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 7, "source": "x"}', "line 2, field id: expected `str`, got `int`"),
        ('{"id": "b"}', "line 2, field source: it is missing"),
        ('{"id": "b", "source": " \\n"}', "line 2, field source: it is empty"),
        ('{"id": "a", "source": "y"}', "line 2, field id: 'a' is the id of an earlier line"),
        ('{"id": "", "source": "y"}', "line 2, field id: expected `str` of length >= 1"),
        ('{"id": "b\\n", "source": "y"}', "line 2, field id: control characters and line breaks"),
        ('{"id": "b", "source": "y", "lang": "py"}', "line 2, field lang: unknown field"),
        ('{"id": "b", "source": "y", "name": "a.rs"}', "line 2, field name: 'a.rs' has none of"),
        (
            '{"id": "b", "source": "y", "others": {"../a.py": ""}}',
            "line 2, field others: '../a.py'",
        ),
        ('{"id": "b", "source": "y"', "line 2: this is no JSON: "),
        ("[]", "line 2: expected `object`, got `array`"),
    ],
)
def test_a_wrong_line_is_named_with_its_number_and_field(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "sources.jsonl"
    path.write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(Refused) as refused:
        SourceFile(path)
    assert f"{path}, {message}" in refused.value.reason


def test_a_line_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sources.jsonl"
    with path.open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(Refused, match="line 1: the line is over 8,000,000 bytes"):
        SourceFile(path)


def test_sources_are_read_in_order_and_empty_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "sources.jsonl"
    path.write_text(f'\n{GOOD}\n\n{{"id": "b", "source": "int x;", "name": "k.cpp"}}')
    sources = SourceFile(path)
    assert [(source.id, source.name) for source in sources] == [
        ("a", "submission.py"),
        ("b", "k.cpp"),
    ]
    assert list(sources.digests) == ["a", "b"]
    path.write_text("\n")
    with pytest.raises(Refused, match="has no source"):
        SourceFile(path)


def test_a_line_that_a_kill_cut_off_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultFile(path) as results:
        results.append(make_result("a"))
        results.append(make_result("b"))
    whole = path.read_bytes()
    for length in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:length])
        with ResultFile(path) as results:
            assert list(results.results) == ["a"]
            results.append(make_result("b"))
        assert path.read_bytes() == whole


def test_a_file_of_something_else_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("not ours\n{}")
    with pytest.raises(Refused, match="line 1: "), ResultFile(path):
        pass
    assert path.read_text() == "not ours\n{}"


def test_two_calls_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultFile(path), pytest.raises(Refused, match="another process"), ResultFile(path):
        pass


def test_a_run_goes_on_until_it_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultFile(path) as results:
        results.append(make_result("a"))
        run = results.open_run()
        results.append(make_result("b"))
    assert run.known == 1
    with ResultFile(path) as results:
        assert results.open_run() == run
        results.finish_run()
    assert list(tmp_path.iterdir()) == [path]
    with ResultFile(path) as results:
        assert results.open_run().id != run.id
        assert results.open_run().known == 2
    path.write_text("")
    with ResultFile(path) as results:
        assert results.open_run().known == 0, "it is a file with other results"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gpu", "CPU"), "--gpu is for evaluations on a platform"),
        (("--as", "ada"), "--as is for evaluations on a platform"),
        (("--url", "http://127.0.0.1:1", "--device", "cpu"), "--device is for evaluations on this"),
        (("--url", "http://127.0.0.1:1", "--level-min", "weak"), "--level-min is for evaluations"),
    ],
)
def test_an_option_without_an_effect_is_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    sources = tmp_path / "sources.jsonl"
    sources.write_text(f"{GOOD}\n")
    out = tmp_path / "results.jsonl"
    result = run_warpboard("evaluate", "softmax", sources, "--out", out, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not out.exists()


def test_a_problem_of_a_checkout_has_a_name(tmp_path: Path) -> None:
    for level, name in ((1, "19_ReLU"), (1, "3_Sum"), (2, "3_Sum")):
        file = tmp_path / "KernelBench" / f"level{level}" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    definition = tmp_path / "definitions" / "norm" / "rmsnorm_h128.json"
    definition.parent.mkdir(parents=True)
    definition.write_text(json.dumps({}))
    for name in ("19_ReLU", "level1/19_ReLU", "kernelbench-1-19-relu"):
        assert find_named_problem(name, tmp_path).stem == "19_ReLU"
    assert find_named_problem("rmsnorm_h128", tmp_path) == definition
    assert find_named_problem("level2/3_Sum", tmp_path).parent.name == "level2"
    with pytest.raises(Refused, match="say level1/3_Sum or level2/3_Sum"):
        find_named_problem("3_Sum", tmp_path)
    with pytest.raises(Refused, match="has no problem softmax"):
        find_named_problem("softmax", tmp_path)
    with pytest.raises(Refused, match="--checkout DIR it may be a name, and with --url URL"):
        find_named_problem(str(tmp_path / "nothing"), None)
