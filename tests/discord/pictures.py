"""`python -m tests.discord.pictures [SCENE ...]`: docs/images/discord, as the page draws messages.

It starts a platform, a simulated Discord, the bot and a browser, and takes some minutes. With names
of scenes, it takes the pictures of these only.
"""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discord_sim.cdn import FileUpload
from discord_sim.control import Control
from discord_sim.simulator import Simulator
from discord_sim.users import SimulatedUser as Member
from shared.clock import now
from tests.discord.announcing import find_channel, start_announcing
from tests.discord.bot_process import load_validators
from tests.discord.channel_users import (
    WHY,
    ChannelUser,
    grant_role,
    message_text,
    preview_publication,
)
from tests.discord.contests import CONTEST, PROBLEM, accept_terms, cup, send_contest
from tests.discord.platform import (
    BOARD,
    KERNEL,
    RANKED,
    EdgePlatform,
    launch_platform,
    newest_thread,
    wait_until_known,
)
from tests.support.browser import open_browser, open_context
from tests.support.people import HONEST, add_problem
from tests.support.platform import ROOT
from tests.system.pictures import save_small
from tests.system.test_problem_checks import REFERENCE

if TYPE_CHECKING:
    from playwright.async_api import Page

FOLDER = ROOT / "docs" / "images" / "discord"
OTHERS = ("axpy", "histogram", "softmax")
# Nobody waits for pictures, and machines are slow.
PATIENCE_S = 300.0
WIDTH, HEIGHT, PAGE_HEIGHT = 1000, 3000, 900
# Which machine took them is not what they show.
ANONYMOUS = r"""document.querySelectorAll(".note").forEach((one) => {
  one.textContent = one.textContent.replace(/Linux-[^\s,]+/, "Linux");
})"""
LIST = "document.getElementById('messages')"
# The box around all elements, with a margin.
FRAME = """
    all[0].scrollIntoView();
    const boxes = all.map((element) => element.getBoundingClientRect());
    const x = Math.max(0, Math.min(...boxes.map((box) => box.left)) - margin);
    const y = Math.max(0, Math.min(...boxes.map((box) => box.top)) - margin);
    const width = Math.max(...boxes.map((box) => box.right)) + margin - x;
    const height = Math.max(...boxes.map((box) => box.bottom)) + margin - y;
    return {x, y, width, height};
"""
ITEM = "document.getElementById('message-{}')"
TEST = "leaderboard submit test"
# Who did something is a participant, whatever became of it.
KNOWN = "leaderboard join"
BODY = "    source,"
HARDER = HONEST.replace(BODY, "    import time\n\n    time.sleep({})\n" + BODY)
WRONG = HONEST.replace("output.copy_(source)", "output.copy_(source)\n    output[0] += 1")


def kernel(source: str, name: str = "kernel.py") -> FileUpload:
    """A file to submit."""
    return FileUpload(name, "text/x-python", source.encode())


@dataclass
class Studio:
    """Where pictures are taken, and the people on them."""

    edge_platform: EdgePlatform
    page: "Page"
    lobby: str = ""
    taken: list[str] = field(default_factory=list)

    @property
    def sim(self) -> Simulator:
        """The simulated Discord."""
        return self.edge_platform.sim

    async def look(self, person: Member, room: str) -> None:
        """Be somebody in a channel."""
        await self.page.evaluate(f"location.hash = '#{person.id}/{room}'")
        await self.page.wait_for_function(f"() => {LIST}.dataset.place === '{person.id}/{room}'")

    async def take(self, name: str, person: Member, *messages: Any) -> None:
        """A picture of messages, as somebody sees them, in their newest state."""
        room = messages[0]["channel_id"]
        await self.look(person, room)
        items = ", ".join(ITEM.format(one["id"]) for one in messages)
        is_said = "(one) => one && !one.innerText.includes('is thinking…')"
        await self.page.wait_for_function(f"() => [{items}].every({is_said})")
        await self.draw(name, items)

    async def draw(self, name: str, items: str, margin: int = 8) -> None:
        """A picture of elements."""
        await self.page.evaluate(ANONYMOUS)
        clip = await self.page.evaluate(f"margin => {{ const all = [{items}]; {FRAME} }}", margin)
        save_small(await self.page.screenshot(clip=clip), FOLDER / f"{name}.png")
        self.taken.append(name)

    async def use_command(self, name: str, person: Member, path: str, **given: Any) -> Any:
        """A picture of what a command answers."""
        message = await (await person.slash(self.lobby, path, **given)).answered()
        await self.take(name, person, message)
        return message

    async def submitted(
        self,
        person: Member,
        script: FileUpload,
        path: str = RANKED,
        problem: str = "identity",
    ) -> tuple[Any, Any]:
        """The status and the report of a submission that is over."""
        before = len(person.threads(self.lobby))
        given = {"script": script, "gpu": "CPU", "leaderboard_name": problem}
        await person.slash(self.lobby, path, **given)

        def begun_() -> bool:
            return len(person.threads(self.lobby)) > before

        await self.sim.record.until(begun_, "a thread", PATIENCE_S)
        return await self.over(person, await newest_thread(self.sim, person, self.lobby))

    async def over(self, person: Member, room: str) -> tuple[Any, Any]:
        """The status and the report of a submission, once both are the last."""

        def told() -> Any:
            seen = person.sees(room)
            is_last = seen and seen[0]["content"].rpartition("\n")[2].startswith(("✅", "❌"))
            return seen if is_last and len(seen) >= 2 else None

        seen = await self.sim.record.until(told, "a report", PATIENCE_S)
        return seen[0], seen[1]


async def submitting(studio: Studio, ada: Member) -> None:
    """The menu, the answer, the message on its way, and both ends."""
    sim = studio.sim
    await wait_until_known(ada, studio.lobby)
    menu = await (await ada.slash(studio.lobby, TEST, script=KERNEL, **BOARD)).answered()
    await studio.take("menu", ada, menu)
    slow = kernel(HARDER.format(1))
    answer = await (await ada.slash(studio.lobby, TEST, script=slow, gpu="CPU", **BOARD)).answered()
    room = await newest_thread(sim, ada, studio.lobby)

    def on_its_way() -> bool:
        return any("case" in one["content"] for one in ada.sees(room))

    await sim.record.until(on_its_way, "a case", PATIENCE_S)
    await studio.take("status", ada, ada.sees(room)[0])
    await studio.take("answer", ada, answer)
    await (await ada.click(ada.sees(room)[0], "Cancel")).acknowledged()
    await studio.over(ada, room)
    await studio.take("passed", ada, *(await studio.submitted(ada, KERNEL)))
    await studio.take("failed", ada, *(await studio.submitted(ada, kernel(WRONG), TEST)))
    await studio.submitted(sim.person("bea"), KERNEL)


async def looking(studio: Studio, ada: Member) -> None:
    """What is asked for."""
    for name in OTHERS:
        # Not before: their own baselines keep the only agent busy for long.
        folder = ROOT / "problems" / name
        await asyncio.to_thread(
            add_problem,
            studio.edge_platform.running.url,
            folder,
            studio.edge_platform.running.operator,
        )
        await wait_until_known(ada, studio.lobby, name)
    await studio.use_command("list", ada, "leaderboard list")
    await studio.use_command("show", ada, "leaderboard show", gpu="CPU", **BOARD)
    await studio.use_command("task", ada, "leaderboard task", **BOARD)
    path = "leaderboard compare"
    offered = await ada.autocomplete(studio.lobby, path, "a", a="")
    numbers = sorted(int(one["value"]) for one in offered)
    await studio.use_command("details", ada, "leaderboard get-submission", submission_id=numbers[1])
    await studio.use_command("comparison", ada, path, a=numbers[1], b=numbers[-1])
    await studio.use_command("queue", ada, "leaderboard queue")
    await studio.use_command("help", ada, "leaderboard help")
    await studio.use_command("error", ada, "leaderboard get-submission", submission_id=99999)
    await studio.use_command("notify", ada, "account notify")


async def authoring(studio: Studio, _: Member) -> None:
    """What an author sees before something is published."""
    ann = ChannelUser(
        studio.edge_platform,
        studio.sim.person("ann", studio.edge_platform.roles["creator"]),
        studio.lobby,
    )
    await wait_until_known(ann.person, studio.lobby)
    await ann.use_command(KNOWN, code="none")
    await grant_role(studio.edge_platform, "ann", "creator")
    asked = {
        "leaderboard_name": "doubled",
        "deadline": "2099-01-02 03:04",
        "reference_code": FileUpload("reference.py", "text/x-python", REFERENCE),
        "gpu": "CPU",
    }
    message = await preview_publication(ann, asked)
    await studio.sim.record.until(
        lambda: "Publish this?" in message_text(message), "a preview", PATIENCE_S
    )
    await studio.take("create", ann.person, message)
    await ann.press(message, "Discard", "Discarded")


async def moderating(studio: Studio, ada: Member) -> None:
    """Show where operators do everything else, and what a decision tells its participant."""
    sim = studio.sim
    olga = ChannelUser(
        studio.edge_platform, sim.person("olga", studio.edge_platform.roles["admin"]), studio.lobby
    )
    await olga.use_command(KNOWN, code="none")
    await grant_role(studio.edge_platform, "olga", "admin")
    rooms = [one for one in ada.threads(studio.lobby) if " ranked " in one["name"]]
    room, number = rooms[0]["id"], int(rooms[0]["name"].split()[0].removeprefix("#"))
    message = await (await olga.person.slash(olga.channel, "admin pages")).answered()
    await studio.take("pages", olga.person, message)
    before = len(ada.sees(room))
    await olga.use_command(
        "moderate disqualify", submission=number, rule="no precomputed answers", **WHY
    )

    def heard() -> list[Any]:
        return [*ada.sees(room)[before:], *ada.letters()]

    await studio.take("letter", ada, (await sim.record.until(heard, "a letter", PATIENCE_S))[-1])


async def announcing(studio: Studio, ada: Member) -> None:
    """What everybody reads: a post, lines, a thread below one, a podium."""
    sim, submissions = studio.sim, find_channel(studio.sim, "submissions")

    def said(words: str) -> list[Any]:
        return [one for one in ada.sees(submissions) if words in message_text(one)]

    lines = await sim.record.until(lambda: said("· #"), "a line", PATIENCE_S)
    await studio.take("line", ada, *lines[-2:])
    thread = await sim.record.until(lambda: ada.sees(lines[0]["id"]), "a thread", PATIENCE_S)
    await studio.take("thread", ada, thread[0])
    podium = await sim.record.until(
        lambda: said("podium") or said("A new record"), "a podium", PATIENCE_S
    )
    await studio.take("podium", ada, podium[-1])
    post = next(
        one for one in ada.threads(find_channel(sim, "central")) if one["name"] == "identity"
    )
    await studio.take("post", ada, ada.sees(post["id"])[0])
    await studio.page.set_viewport_size({"width": WIDTH, "height": PAGE_HEIGHT})
    await studio.look(ada, submissions)
    await studio.draw("page", "document.body", 0)


async def competing(studio: Studio, ada: Member) -> None:
    """What participants of a contest read and are asked, and what everybody is told of it."""
    platform, sim = studio.edge_platform, studio.sim
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "problems" / "identity", Path(folder) / PROBLEM)
        await asyncio.to_thread(
            add_problem, platform.running.url, Path(folder) / PROBLEM, platform.running.operator
        )
    bea = ChannelUser(platform, sim.person("bea"), studio.lobby)
    await bea.use_command(KNOWN, code="none")
    main_at = now().replace(microsecond=0) + timedelta(seconds=30)
    await send_contest(platform, cup(main_at, main_at + timedelta(days=14), organiser="bea"))
    general = find_channel(sim, "general")

    def said(words: str) -> list[Any]:
        return [one for one in ada.sees(general) if words in message_text(one)]

    await sim.record.until(lambda: said("A new contest"), "a contest", PATIENCE_S)
    doing = await ada.slash(studio.lobby, "contest register", **CONTEST, division="assisted")
    message = await doing.answered()
    await studio.take("terms", ada, message)
    user = ChannelUser(platform, ada, studio.lobby)
    await accept_terms(user, message, "none")
    await user.use_command("contest team create", **CONTEST, name="Two Warps")
    await sim.record.until(lambda: said("has begun"), "the round", PATIENCE_S)
    await studio.submitted(ada, KERNEL, problem=PROBLEM)
    await studio.use_command("contest", ada, "contest show", **CONTEST)
    await studio.use_command("standing", ada, "contest standing", **CONTEST)
    await studio.take("phases", ada, *said("Winter cup"))


Scene = Callable[[Studio, Member], Awaitable[None]]
# In this order: each shows what those before it led to.
SCENES: tuple[Scene, ...] = (submitting, looking, authoring, moderating, announcing, competing)


@asynccontextmanager
async def studio_of(folder: Path) -> AsyncIterator[Studio]:
    """A platform, a bot that tells everybody, and a browser at the page."""
    running = await asyncio.to_thread(launch_platform, folder / "home")
    sim = Simulator(load_validators())
    sim.extras.append(Control(sim).add_to)
    try:
        async with open_browser() as browser, sim, open_context(browser, sim.url) as context:
            roles = {"creator": await sim.add_role("Authors")}
            for name in ("moderator", "admin"):
                roles[name] = await sim.add_role(f"{name.title()}s", "manage_guild")
            dsn = running.postgres.dsn_of("discord_edge")
            edge_platform = EdgePlatform(running, sim, folder / "edge.log", dsn, roles)
            await start_announcing(edge_platform)
            page = await context.new_page()
            await page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            await page.goto("/sim/")
            await asyncio.to_thread(
                add_problem, running.url, ROOT / "problems" / "identity", running.operator
            )
            yield Studio(edge_platform, page, await sim.add_channel("kernels"))
            await edge_platform.stop()
            assert not sim.record.violations, "\n".join(sim.record.violations)
    finally:
        await asyncio.to_thread(running.stop)


async def main() -> int:
    """Take all pictures; 1 if some could not be taken."""
    wrong, task = 0, asyncio.current_task()
    assert task is not None, "it runs"
    # Who ends it leaves no platform behind.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with tempfile.TemporaryDirectory() as folder:
        async with studio_of(Path(folder)) as studio:
            ada = studio.sim.person("ada")
            for scene in SCENES:
                if sys.argv[1:] and scene.__name__ not in sys.argv[1:]:
                    continue
                try:
                    await scene(studio, ada)
                except AssertionError as error:
                    wrong = 1
                    sys.stderr.write(f"{scene.__doc__}: {error}\n")
            sys.stdout.write(f"{len(studio.taken)} pictures: {', '.join(studio.taken)}\n")
    return wrong


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
