"""What clients offer to people beside the tools: pages of problems, and the prompt."""

from collections.abc import Mapping
from string import Template

from shared.errors import Refused
from warpboard.mcp import asks, tasks
from warpboard.mcp.hands import Hands
from warpboard.service.ports import Disk

SCHEME = "warpboard://problems/"
STARTER = "/starter"
PAGE_TYPE, SOURCE_TYPE = "text/markdown", "text/plain"
TEMPLATES = (
    (f"{SCHEME}{{slug}}", "task", "A problem: statement, reference, rules.", PAGE_TYPE),
    (
        f"{SCHEME}{{slug}}{STARTER}",
        "starter",
        "The file that a kernel for it begins as.",
        SOURCE_TYPE,
    ),
)
PROMPT = "optimise"
ABOUT = "Make a kernel for a problem right, then faster, in a loop of measured steps."
ARGUMENTS = (
    ("problem", "The problem's slug; list_problems has them.", True),
    ("gpu", "The GPU type to be fast on; else the first of the problem's.", False),
)
NAME_LENGTH_MAX = 95
Listed = tuple[str, str, str, str]


async def listed(hands: Hands) -> list[Listed]:
    """The pages of every problem: address, name, what it is, type. Errors: Refused; Failed."""
    found = (await tasks.list_problems(hands, asks.ListProblems())).problems
    return [
        page
        for one in found
        for page in (
            (f"{SCHEME}{one.slug}", one.slug, f"The task {one.title}.", PAGE_TYPE),
            (
                f"{SCHEME}{one.slug}{STARTER}",
                f"{one.slug} starter",
                f"The file that a kernel for {one.title} begins as.",
                SOURCE_TYPE,
            ),
        )
    ]


async def read(hands: Hands, uri: str) -> tuple[str, str]:
    """A page's text and type. Errors: Refused; Failed."""
    slug = uri.removeprefix(SCHEME)
    if slug == uri or not slug:
        known = " and ".join(uri for uri, *_ in TEMPLATES)
        raise Refused("unknown_page", f"there is no page {uri!r}: there are {known}", "uri")
    if slug.endswith(STARTER):
        return await tasks.starter_page(hands, slug.removesuffix(STARTER)), SOURCE_TYPE
    return await tasks.statement_page(hands, slug), PAGE_TYPE


def prompt(disk: Disk, name: str, said: Mapping[str, str]) -> str:
    """The prompt's text for a problem. Errors: Refused, naming the argument that lacks."""
    if name != PROMPT:
        raise Refused("unknown_prompt", f"there is no prompt {name!r}: {PROMPT}", "name")
    problem = said.get("problem", "").strip()
    if not problem or len(problem) > NAME_LENGTH_MAX:
        raise Refused("bad_argument", "say for which problem: its slug", "problem")
    gpu = said.get("gpu", "").strip()[:NAME_LENGTH_MAX] or "the first GPU type of read_task"
    return Template(disk.page("optimise.md")).substitute(problem=problem, gpu=gpu)
