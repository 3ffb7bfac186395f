"""The pages of the shipped problems, docs/problems/: one a problem, and an index by track."""

import ast
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from shared.problem_folders import read_problem_files
from shared.problems.compilation import compile_problem
from shared.problems.single_file import SUFFIXES
from shared.problems.submission_file import SUFFIXES as SOLUTION_SUFFIXES
from shared.problems.submission_file import read_directives

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "problems"
TRACKS = {
    "first-steps": "First steps",
    "memory-bound": "Memory-bound",
    "compute-bound": "Compute-bound",
    "llm-inference": "LLM inference",
}
NOTE = "Generated from `problems/` by `make docs`; a test fails when a page is stale."
ROOT_LINK = "../../problems"
HEAD = f"""# Problems

{NOTE}

The problems that come with Warpboard, by track, the easier ones first. Each is a folder in
`problems/` with a statement, a reference, a template, and solutions: those of `correct/` must pass,
each of `wrong/` is wrong for the one reason that it states, and must be found. Those with C++ or
CUDA in their title are [one file](../formats.md#single-files) in that language. `make problems`
runs them all on the cpu device, `make problems ONLY="softmax rope"` some of them. What needs a GPU
is said to be not shown there. [Writing a problem](../writing-a-problem.md) says how to make one.
"""
DIFFICULTIES = ("easy", "medium", "hard")


@dataclass(frozen=True)
class Shown:
    """A problem as its page shows it."""

    slug: str

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return ROOT / "problems" / self.slug

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """What its version says."""
        version = compile_problem(self.slug, read_problem_files(self.folder))
        return json.loads(version.manifest)  # type: ignore[no-any-return]  # a manifest is a map

    @property
    def main_file(self) -> str:
        """The file that its reader opens first."""
        sources = (path.name for path in sorted(self.folder.iterdir()) if path.suffix in SUFFIXES)
        return "task.yml" if (self.folder / "task.yml").exists() else next(sources)

    @property
    def track(self) -> str:
        """The one of its tags that names a track."""
        (found,) = TRACKS.keys() & set(self.manifest["tags"])
        return found

    @property
    def place(self) -> tuple[int, str]:
        """Where it stands in its track."""
        return DIFFICULTIES.index(self.manifest["difficulty"]), self.manifest["title"]

    def solutions(self, kind: str) -> Iterator[tuple[str, str, str]]:
        """Name, first sentence and GPU types of each file of a kind."""
        for path in sorted((self.folder / "solutions" / kind).glob("*.*")):
            if path.suffix not in SOLUTION_SUFFIXES.values():
                continue
            text = path.read_text(encoding="utf-8")
            said = _description(path.suffix, text)
            gpus = read_directives(text).gpus
            yield path.name, " ".join(said.split()), ", ".join(gpus) or "every GPU type"


def _description(suffix: str, text: str) -> str:
    """The first paragraph of a solution's docstring, or of its comment in C++."""
    if suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]
    comment = itertools.takewhile(lambda line: line.startswith("//"), text.splitlines())
    return " ".join(line.removeprefix("//") for line in comment if not line.startswith("//!"))


def pages() -> dict[Path, str]:
    """Every page by its place, as it should be."""
    slugs = sorted(path.parent.name for path in ROOT.glob("problems/*/warpboard.yml"))
    shown = [Shown(slug) for slug in slugs]
    return {FOLDER / "README.md": _index(shown)} | {
        FOLDER / f"{one.slug}.md": _page(one) for one in shown
    }


def _index(shown: list[Shown]) -> str:
    parts = [HEAD]
    for track, title in TRACKS.items():
        rows = [
            f"| [{one.manifest['title']}]({one.slug}.md) | {one.manifest['difficulty']} "
            f"| {_sentence(one)} | {_counts(one)} |"
            for one in sorted(shown, key=lambda one: one.place)
            if one.track == track
        ]
        head = "| problem | difficulty | what is to be done | solutions |\n|---|---|---|---|\n"
        parts.append(f"\n## {title}\n\n{head}" + "\n".join(rows) + "\n")
    return "".join(parts)


def _sentence(one: Shown) -> str:
    """The first sentence of its description."""
    return " ".join(one.manifest["description"].split()).partition(". ")[0].rstrip(".")


def _counts(one: Shown) -> str:
    correct, wrong = (sum(1 for _ in one.solutions(kind)) for kind in ("correct", "wrong"))
    return f"{correct} correct, {wrong} wrong"


def _page(one: Shown) -> str:
    """Facts, statement, cases and solutions of a problem."""
    manifest = one.manifest
    title, _, statement = (one.folder / "statement.md").read_text(encoding="utf-8").partition("\n")
    tags = ", ".join(tag for tag in manifest["tags"] if tag not in TRACKS)
    suffix = Path(one.main_file).suffix.replace(".yml", ".py")
    facts = (
        ("track", f"[{TRACKS[one.track]}](README.md)"),
        ("difficulty", manifest["difficulty"]),
        ("tags", tags),
        ("GPU types", ", ".join(manifest["gpus"])),
        ("ranked by", f"`{manifest['ranking_by']}`"),
        ("least work of a call", _least_work(manifest)),
        *_goals(one),
        ("files", f"[problems/{one.slug}]({ROOT_LINK}/{one.slug}/{one.main_file})"),
        ("try it", f"`warpboard run kernel{suffix} --problem problems/{one.slug}`"),
    )
    parts = [title, "", NOTE, "", "| | |", "|---|---|"]
    parts += [f"| {name} | {value} |" for name, value in facts]
    parts += [statement.rstrip(), "", "## Cases", ""]
    parts += _cases(manifest)
    parts += ["", "## Solutions", "", "Correct ones, and where each runs:", ""]
    parts += [_row(one, "correct", *found) for found in one.solutions("correct")]
    parts += ["", "Wrong ones, and why:", ""]
    parts += [_row(one, "wrong", name, said, "") for name, said, _ in one.solutions("wrong")]
    return "\n".join(parts) + "\n"


def _goals(one: Shown) -> Iterator[tuple[str, str]]:
    """What scores are held against beside each other, where there is something."""
    said = [
        f"[`{found['name']}`]({ROOT_LINK}/{one.slug}/{found['file']}) ({found['note']})"
        for found in one.manifest.get("baselines", [])
    ]
    if said:
        yield "baselines", ", ".join(said)
    named = [
        f"{found['title']} (`{found['metric']} {found['op']} {found['value']:g}`)"
        for found in one.manifest.get("milestones", [])
    ]
    if named:
        yield "milestones", ", ".join(named)


def _least_work(manifest: Mapping[str, Any]) -> str:
    """What a call has to move and to compute, as its author wrote it."""
    said = manifest["roofline"]
    parts = [f"`{said['bytes']}` bytes", f"of them `{said['written']}` written"]
    if "flops" in said:
        parts.append(f"`{said['flops']}` operations of {said['dtype']}")
    return f"{', '.join(parts)} ([what for](../timing.md#what-a-machine-can-do))"


def _row(one: Shown, kind: str, name: str, said: str, gpus: str) -> str:
    where = f" ({gpus})" if gpus else ""
    return f"* [{name}]({ROOT_LINK}/{one.slug}/solutions/{kind}/{name}): {said}{where}"


def _cases(manifest: Mapping[str, Any]) -> list[str]:
    """Checked cases, then timed ones, a column an argument."""
    columns = [key for key in manifest["benchmarks"][0]["args"] if key != "seed"]
    if not columns:
        return ["One case without arguments, checked and timed."]
    rows = [f"| | {' | '.join(f'`{column}`' for column in columns)} |"]
    rows.append("|---" * (len(columns) + 1) + "|")
    for kind, name in (("tests", "checked"), ("benchmarks", "timed")):
        for case in manifest[kind]:
            values = " | ".join(str(case["args"][column]) for column in columns)
            rows.append(f"| {name} | {values} |")
    return rows
