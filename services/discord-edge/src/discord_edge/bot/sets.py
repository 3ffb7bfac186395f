"""`/admin update-problems`, `verify-task`: problems that come from authors, many or one."""

from typing import Any, Literal

from discord import app_commands

from discord_edge.bot.asking import Here, say
from discord_edge.bot.original import home
from discord_edge.bot.staff import LOOKED, Named, Question, acted, any_board, begun, told
from discord_edge.domain import sets
from discord_edge.domain.wording import CONTENT_MAX, escaped
from discord_edge.service.sets import Errand, came
from shared.errors import Refused

ADMIN = "admin"
ASKED_S_MAX = 300.0
AGAIN = "`warpboard problem check DIRECTORY`"
Line = app_commands.Range[str, 1, 100]


@app_commands.command(name="update-problems", description="Publish what a repository holds")
@app_commands.describe(
    repository_name="owner/name, of those that the platform's operator allows",
    problem_set="The contest file without its ending; all if it is not said",
    force="Drop GPU types that are not named any more; needs problem_set",
    closed="Let members alone see them",
    dry_run="Say what would be done, and do nothing",
)
async def update_problems(  # noqa: PLR0913 - each is an option on Discord
    here: Here,
    *,
    repository_name: app_commands.Range[str, 1, 200],
    problem_set: Line | None = None,
    branch: Line = "main",
    force: bool = False,
    closed: bool = False,
    dry_run: bool = True,
) -> None:
    """Show what would be published, ask, and publish it."""
    user = await begun(here, ADMIN)
    if force and problem_set is None:
        what = "`force` may take entries off: say in `problem_set` of which contest"
        raise Refused("invalid_request", what, "problem_set")
    said: dict[str, object] = {"repository": repository_name.strip(), "branch": branch.strip()}
    said |= {"problem_set": problem_set.strip() if problem_set else None, "force": force}
    said |= {"visibility": "closed"} if closed else {}
    what = "looked at what it would publish" if dry_run else "published from it"
    await acted(here, user, repository_name.strip(), what)
    api, publishing = here.client.api, here.client.publishing
    planned = await came(api, user, said, is_dry=True)
    if dry_run or sets.is_idle(planned):
        await told(here, [*sets.plan(planned), "Nothing was published."], "")
        return
    before = await publishing.versions(user, planned)
    if not await _agreed(here, sets.plan(planned)):
        await say(here, "Discarded: nothing was published.")
        return
    errand = Errand(str(here.id), user, str(home(here)), said, before)
    await publishing.begin(errand, lambda lines, is_over: _shown(here, lines, is_over=is_over))


async def _shown(here: Here, lines: list[str], *, is_over: bool) -> bool:
    """Say how far it is, or how it ended, while the answer can be edited; whether it was."""
    if here.is_expired():
        return False
    return await (told(here, lines, "") if is_over else say(here, "\n".join(lines)))


async def _agreed(here: Here, lines: list[str]) -> bool:
    """Whether what would be done is to be done."""
    text = "\n".join([*lines, "Publish this?"])
    if len(text) > CONTENT_MAX:
        text = f"{len(lines)} problems, as `dry_run` lists them. Publish them?"
    view = Question(here.user.id, "Apply", "Discard", ASKED_S_MAX)
    await here.edit_original_response(content=text, view=view)
    return await view.answered()


@app_commands.command(name="verify-task", description="How a problem's own solutions ended")
@app_commands.describe(mode="Which solutions; all if it is not said")
@app_commands.autocomplete(leaderboard_name=any_board)
async def verify_task(
    here: Here,
    leaderboard_name: Named,
    mode: Literal["all", "correct", "wrong", "baseline"] = "all",
) -> None:
    """A line for each solution, as the author's machine found it: they are published nowhere."""
    user, slug = await begun(here, ADMIN), leaderboard_name.strip().lower()
    await acted(here, user, slug, LOOKED)
    found = await here.client.api.get(user, "problems", slug)
    check = found["check"]
    head = f"**{escaped(slug)}** version {found['number']}"
    if check["state"] != "clean":
        await say(here, f"{head} was not checked: {escaped(check['reason'])}.")
        return
    lines = [
        f"{head}, checked on {escaped(check['device'])} with harness {escaped(check['harness'])}",
        *sets.solutions(check["solutions_found"], mode),
        *(f"⚠ {escaped(one)}" for one in check["warnings"]),
        f"The solutions stay with their author: {AGAIN} runs them again there.",
    ]
    await told(here, lines, "")


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (update_problems, verify_task)
