"""The pages do what they say: every command in a transcript is run, and its output compared."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from shared.problems.compilation import compile_problem
from tests.docs.transcripts import ROOT, Reader, copy_clone, match_output, read_steps

# In this order, on one platform: a page may go on where another ended.
PAGES = (
    "README.md",
    "docs/walks/participant.md",
    "docs/audit.md",
    "docs/walks/llm-agent.md",
    "docs/mcp.md",
    "docs/writing-a-problem.md",
    "docs/walks/organiser.md",
    "docs/walks/operator.md",
)
CONTRIBUTOR = "docs/walks/contributor.md"
# On hosts of their own, which tests/system/test_three_machines.py has.
THREE_MACHINES = ("deploy/three-machines/README.md", "deploy/three-machines/failover.md")
# These need the frameworks of agents/constraints.txt, which tests/agents has.
FRAMEWORKS = tuple(
    f"docs/frameworks/{name}.md" for name in ("openenv", "verifiers", "trl", "openevolve")
)
# What `make check` knows of the libraries, which mypy would read for half a minute.
MYPY_CACHE = ROOT / ".mypy_cache"
SOURCES = ("shared", "harness", "services/ingest", "services/ranker", "services/scheduler")


def documentation() -> Iterator[Path]:
    """The pages that a reader may follow."""
    readmes = ("*/README.md", "services/*/README.md")
    for pattern in ("*.md", "docs/**/*.md", "deploy/*/*.md", *readmes):
        yield from ROOT.glob(pattern)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader of all pages in one clone, whose platform is the one that the first page starts."""
    folder = tmp_path_factory.mktemp("reader")
    with Reader(copy_clone(folder / "warpboard"), folder / "home") as reader:
        yield reader


def test_every_transcript_is_followed() -> None:
    followed = {
        str(page.relative_to(ROOT))
        for page in documentation()
        if re.search(r"^ *```console\b", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert followed == {*PAGES, *FRAMEWORKS, *THREE_MACHINES, CONTRIBUTOR}


def test_a_command_after_a_prompt_is_in_a_transcript() -> None:
    for page in documentation():
        text = page.read_text(encoding="utf-8")
        prompts = len(re.findall(r"^\s*\$ ", text, re.MULTILINE))
        # A command of several hosts is one prompt.
        steps = {step.line for step in read_steps(text) if not step.command.endswith("END_OF_FILE")}
        assert prompts == len(steps), f"{page.relative_to(ROOT)}: begin the block with ```console"


def test_other_output_is_no_match() -> None:
    assert match_output(("passed", "…"), "failed\npassed\n", {}) is None
    assert match_output(("passed in 2 s",), "passed in 2 files\n", {}) is None
    assert match_output(("submission NUMBER",), "submission 8\n", {"NUMBER": "7"}) is None
    assert match_output((), "something\n", {}) is None


def test_the_reference_of_the_walk_on_discord_is_a_problem() -> None:
    text = (ROOT / "docs" / "discord.md").read_text(encoding="utf-8")
    blocks = re.findall(r'```python title="(.+?)"\n(.*?)\n +```', text, re.DOTALL)
    files = {name: dedent(body).encode() for name, body in blocks}
    version = compile_problem("doubled", {"reference.py": files.pop("reference.py")}, ("CPU",))
    assert (version.gpus, version.warnings) == (("CPU",), ())
    assert files["kernel.py"].startswith(b"def custom_kernel(data):\n")


@pytest.mark.platform
@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(reader: Reader, page: str) -> None:
    reader.follow(ROOT / page)


@pytest.mark.server
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_first_change_can_be_made_as_described(tmp_path: Path) -> None:
    clone = copy_clone(tmp_path / "warpboard")
    names = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "Ada"), ("EMAIL", "ada@warpboard.example"))
    }
    git = ["git", "-C", str(clone)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "A clone."]):
        subprocess.run([*git, *command], env=os.environ | names, check=True)
    # The environment has the parts of this clone, so those of the other one precede them.
    sources = os.pathsep.join(str(clone / part / "src") for part in SOURCES)
    if MYPY_CACHE.is_dir():
        shutil.copytree(MYPY_CACHE, clone / MYPY_CACHE.name)
    environ = names | {"PYTHONPATH": sources}
    with Reader(clone, tmp_path / "home", environ) as reader:
        reader.follow(ROOT / CONTRIBUTOR)
