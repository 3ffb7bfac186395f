"""A contest from one file: all its problems, each with its deadline and GPU types, or none."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from shared.problem_versions import load_problem
from tests.cli.command_runner import run_against
from tests.cli.stand_in import ReceivedRequest, Respond
from tests.shared.problems.examples import FILES

CONTEST = """\
name: Autumn
deadline: "2099-01-31"
problems:
  - {directory: one, name: first, gpus: [CPU]}
  - {directory: two, name: second, deadline: "2099-02-01T08:00:00+02:00"}
  - {directory: three, name: third}
"""
UNCHECKED = ("--unchecked", "tried by hand")
NOW, LATER = "2099-01-31T00:00:00Z", "2099-02-01T06:00:00Z"


def contest(folder: Path, text: str = CONTEST) -> Path:
    """A contest of three problems, which differ by their description."""
    for name in ("one", "two", "three"):
        for one, data in FILES.items():
            target = folder / name / one
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(data.replace(b"Doubles", name.encode()))
    # One takes its GPU types from the contest.
    task = folder / "one" / "task.yml"
    task.write_text(task.read_text().replace("gpus: [CPU, H100]\n", ""))
    file = folder / "contest.yaml"
    file.write_text(text)
    return file


def there(folder: Path, name: str, slug: str, **changed: Any) -> dict[str, Any]:
    """What the platform says of a problem that is as its files are."""
    problem = load_problem(folder / name, slug)
    manifest = json.loads(problem.manifest)
    digest = hashlib.sha256(problem.manifest).hexdigest()
    answer = {
        "slug": slug,
        "problem_version": 2,
        "title": slug,
        "gpus": manifest["gpus"],
        "digest": digest,
    }
    return answer | {"deadline_at": NOW} | changed


def platform(problems: dict[str, dict[str, Any]], refused: str = "") -> Respond:
    """One that has these problems, and entries on every GPU type."""

    def say(heard: ReceivedRequest) -> tuple[int, object]:
        path = heard.path.partition("?")[0]
        if heard.method == "POST":
            slug = field(heard, "slug")
            if slug == refused:
                return 403, {"code": "not_yours", "detail": f"{slug} is another author's"}
            return 201, {"slug": slug, "problem_version": 3, "is_new": True}
        if "/leaderboards/" in path:
            return 200, {"items": [{}]}
        problem = problems.get(path.rpartition("/")[2])
        absent = {"code": "unknown_problem", "detail": "there is no such problem"}
        return (200, problem) if problem else (404, absent)

    return say


def field(heard: ReceivedRequest, name: str) -> str:
    """A field of the form that a problem is published by, "" for none."""
    match = re.search(rf'name="{name}"\r\n\r\n([^\r]*)'.encode(), heard.body)
    return match[1].decode() if match else ""


def publish(say: Respond, *words: object) -> tuple[Result, list[tuple[str, str]]]:
    """How the command ended, and what was published with which deadline."""
    result, heard = run_against(say, "problem", "publish", *words, WARPBOARD_TOKEN="wb_t")
    sent = [request for request in heard if request.method == "POST"]
    return result, [(field(item, "slug"), field(item, "deadline")) for item in sent]


def test_each_problem_gets_its_deadline_and_what_is_so_already_is_skipped(tmp_path: Path) -> None:
    file = contest(tmp_path)
    known = {
        "second": there(tmp_path, "two", "second"),
        "third": there(tmp_path, "three", "third"),
    }
    result, sent = publish(platform(known), file, *UNCHECKED)
    assert result.exit_code == 0, result.output
    assert sent == [("first", NOW), ("second", LATER)]
    assert result.stdout.splitlines() == [
        "created  first: new, on CPU, until 2099-01-31 00:00 UTC",
        "updated  second: until 2099-02-01 06:00 UTC; it was until 2099-01-31 00:00 UTC",
        "skipped  third: no changes",
    ]
    assert "the deadline 2099-01-31 names no zone: it is 2099-01-31 00:00 UTC" in result.stderr


@pytest.mark.feature("C1")
def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path: Path) -> None:
    file = contest(tmp_path)
    known = {
        "second": there(tmp_path, "two", "second", digest="0" * 64, deadline_at=LATER),
        "third": there(tmp_path, "three", "third"),
    }
    result, sent = publish(platform(known), file, "--dry-run", "--json")
    assert (result.exit_code, sent) == (0, [])
    assert json.loads(result.stdout) == {
        "is_dry_run": True,
        "created": ["first"],
        "updated": ["second"],
        "skipped": [{"name": "third", "reason": "no changes"}],
        "errors": [],
    }
    told, _ = publish(platform(known), file, "--dry-run", "--quota", "ranked=1/day")
    assert "updated  second: version 3 in the place of 2, quota as asked\n" in told.stdout
    assert "updated  third: quota as asked\n" in told.stdout


def test_a_deadline_on_the_command_line_is_that_of_what_the_file_gives_none(
    tmp_path: Path,
) -> None:
    file = contest(tmp_path, CONTEST.replace('deadline: "2099-01-31"\n', ""))
    words = (file, "--deadline", "2098-05-05 10:00", *UNCHECKED)
    result, sent = publish(platform({}), *words)
    assert result.exit_code == 0, result.output
    other = "2098-05-05T10:00:00Z"
    assert sent == [("first", other), ("second", LATER), ("third", other)]
    assert "created  first: new, on CPU, until 2098-05-05 10:00 UTC" in result.stdout


@pytest.mark.feature("C1")
def test_what_is_wrong_with_some_keeps_all_back_and_is_said_of_each(tmp_path: Path) -> None:
    file = contest(tmp_path)
    (tmp_path / "two" / "task.py").unlink()
    (tmp_path / "three" / "task.yml").write_text("files: []\n")
    result, sent = publish(platform({}), file, *UNCHECKED)
    assert (result.exit_code, sent) == (2, [])
    for words in (
        "'task.py' is no file of the problem",
        "'files' has a length of 0",
        "second, third of 3",
    ):
        assert words in result.stderr


def test_a_bad_deadline_publishes_nothing_and_names_its_line(tmp_path: Path) -> None:
    file = contest(tmp_path, CONTEST.replace("2099-02-01T08:00:00+02:00", "next week"))
    result, sent = publish(platform({}), file, *UNCHECKED)
    assert (result.exit_code, sent) == (2, [])
    assert "contest.yaml, line 5: 'next week' is no deadline" in result.stderr


def test_a_deadline_that_is_over_is_taken_by_force_or_where_it_was_so(tmp_path: Path) -> None:
    file = contest(tmp_path, CONTEST.replace("2099-01-31", "2020-01-31"))
    over = "2020-01-31T00:00:00Z"
    known = {
        "first": there(tmp_path, "one", "first", deadline_at=over),
        "second": there(tmp_path, "two", "second"),
    }
    for words in (UNCHECKED, ("--dry-run",)):
        result, sent = publish(platform(known), file, *words)
        assert (result.exit_code, sent) == (2, [])
        assert "third: the deadline 2020-01-31 00:00 UTC is over: name one ahead" in result.stderr
    known["third"] = there(tmp_path, "three", "third", deadline_at=over, digest="0" * 64)
    result, sent = publish(platform(known), file, *UNCHECKED)
    assert sent == [("second", LATER), ("third", over)]
    result, sent = publish(platform({}), file, *UNCHECKED, "--force")
    assert sent == [("first", over), ("second", LATER), ("third", over)]
    options = ("--deadline", "2020-01-31", *UNCHECKED)
    result, sent = publish(platform({}), tmp_path / "two", *options)
    assert (result.exit_code, sent) == (2, [])
    assert "nothing was published" in result.stderr


def test_a_gpu_type_with_entries_is_dropped_by_force_alone(tmp_path: Path) -> None:
    file = contest(tmp_path)
    known = {"first": there(tmp_path, "one", "first", gpus=["CPU", "A100"], digest="d" * 64)}
    result, sent = publish(platform(known), file, *UNCHECKED)
    assert (result.exit_code, sent) == (2, [])
    assert "first: GPU type A100 would be dropped, and has entries" in result.stderr
    result, sent = publish(platform(known), file, *UNCHECKED, "--force")
    assert result.exit_code == 0, result.output
    assert [slug for slug, _ in sent] == ["first", "second", "third"]


def test_the_gpu_types_of_a_contest_go_before_those_of_the_files(tmp_path: Path) -> None:
    file = contest(tmp_path)
    (tmp_path / "one" / "warpboard.yml").write_text("gpus: [H100, CPU]\n")
    known = {"first": there(tmp_path, "one", "first")}
    result, heard = run_against(
        platform(known), "problem", "publish", file, *UNCHECKED, "--force", WARPBOARD_TOKEN="wb_t"
    )
    assert result.exit_code == 0, result.output
    assert "updated  first: on CPU; it was on H100, CPU\n" in result.stdout
    (sent, *_) = [request for request in heard if request.method == "POST"]
    assert (field(sent, "slug"), field(sent, "gpu")) == ("first", "CPU")


def test_after_a_refusal_nothing_more_is_published(tmp_path: Path) -> None:
    result, sent = publish(platform({}, "second"), contest(tmp_path), *UNCHECKED)
    assert result.exit_code == 1
    assert [slug for slug, _ in sent] == ["first", "second"]
    assert "error    second: second is another author's" in result.stdout
    assert "skipped  third: second was refused before it" in result.stdout


MODEL = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x): return x + 1
def get_inputs(): return [torch.rand(8)]
def get_init_inputs(): return []
"""


def level(folder: Path) -> Path:
    """Write a level of KernelBench, whose files are not in the order of their names."""
    path = folder / "KernelBench" / "level1"
    path.mkdir(parents=True)
    for name in ("2_ReLU.py", "10_Add.py", "1_Two_words_.py"):
        (path / name).write_text(MODEL)
    return path


def test_a_level_is_published_one_by_one_and_goes_on_after_an_interruption(
    tmp_path: Path,
) -> None:
    path = level(tmp_path)
    slugs = ["kernelbench-1-1-two-words", "kernelbench-1-2-relu", "kernelbench-1-10-add"]
    words = (path, "--gpu", "CPU", *UNCHECKED)
    result, sent = publish(platform({}, refused=slugs[1]), *words)
    # One that is refused stops no other.
    assert (result.exit_code, [slug for slug, _ in sent]) == (1, slugs)
    assert [line for line in result.stderr.splitlines() if " of 3: " in line] == [
        f"1 of 3: {slugs[0]}: created",
        f"2 of 3: {slugs[1]}: error",
        f"3 of 3: {slugs[2]}: created",
    ]
    assert f"error    {slugs[1]}: {slugs[1]} is another author's" in result.stdout
    # What is published already is not published twice.
    gpus = ("CPU",)
    known = {
        slug: {"slug": slug, "problem_version": 1, "title": slug, "gpus": ["CPU"]}
        | {"digest": load_problem(path / name, None, gpus).digest, "deadline_at": None}
        for slug, name in zip(slugs[::2], ("1_Two_words_.py", "10_Add.py"), strict=True)
    }
    result, sent = publish(platform(known), *words)
    assert result.exit_code == 0, result.output
    assert sent == [(slugs[1], "")]
    assert result.stdout.splitlines()[0] == f"skipped  {slugs[0]}: no changes"
    result, sent = publish(platform({}), path, "--gpu", "CPU", "--dry-run")
    assert (result.exit_code, sent, result.stdout.count("created  ")) == (0, [], 3)


def test_a_level_without_gpu_types_is_refused_with_the_fix(tmp_path: Path) -> None:
    result, sent = publish(platform({}), level(tmp_path), *UNCHECKED)
    assert (result.exit_code, sent) == (2, [])
    assert "1_Two_words_.py: no gpus here" in result.stderr
