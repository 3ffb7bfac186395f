"""The commands of `/contest`: contests and their standings, registration, declarations, teams."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import discord
from discord import app_commands

from discord_edge.bot.discord_py import discord_file
from discord_edge.bot.interactions import (
    BotInteraction,
    Commands,
    CompletedName,
    Confirmation,
    Form,
    GpuMenu,
    Question,
    defer,
    interaction_user,
    reply,
    reply_with_card,
    reply_with_lines,
)
from discord_edge.contests import texts
from discord_edge.platform_api import PlatformApi
from discord_edge.wording import discord_time, escaped, match_names
from shared.api.contest_standings import ContestStanding
from shared.api.contests import ContestCode, ContestDetails, Contests
from shared.api.queues import DecisionResponse
from shared.clock import now
from shared.contests.definition import ARCHIVE, Contest, Division
from shared.errors import Refused, did_you_mean

CONTESTS = "contests"
ASKED_S_MAX = 600.0
# Discord's limits of a form.
FIELDS_MAX, LABEL_LENGTH_MAX = 5, 45
DECLARATION_LENGTH_MAX = 500
ALREADY = " This was already the case."

# Sends what a form asked for, with the API of the user who filled it in.
SendForm = Callable[[BotInteraction, PlatformApi, Mapping[str, str]], Awaitable[None]]
State = Literal["active", "over", "all"]
Round = Literal["qualifier", "main", "finals", "practice"]
TeamCode = app_commands.Range[str, 1, 128]
TeamName = app_commands.Range[str, 1, 40]


async def _match_contests(interaction: BotInteraction, typed: str) -> list[str]:
    contests = await interaction.client.cache.get(None, Contests, CONTESTS)
    return match_names(typed, sorted(it.slug for it in contests.items) if contests else [])


async def _chosen_contest(interaction: BotInteraction) -> ContestDetails | None:
    """Return the contest that the other option of a command names, for completions."""
    slug = str(getattr(interaction.namespace, "contest", None) or "").strip().lower()
    if not slug:
        return None
    user = interaction_user(interaction)
    return await interaction.client.cache.get(user, ContestDetails, CONTESTS, slug)


async def _match_divisions(interaction: BotInteraction, typed: str) -> list[str]:
    details = await _chosen_contest(interaction)
    return match_names(typed, [it.slug for it in details.contest.divisions] if details else [])


async def _match_members(interaction: BotInteraction, typed: str) -> list[str]:
    details = await _chosen_contest(interaction)
    members = details.own.members if details and details.own else []
    return match_names(typed, sorted(it.participant for it in members if it.participant))


ContestName = app_commands.Transform[
    str, CompletedName(_match_contests, is_slug=True, length_max=64)
]
DivisionName = app_commands.Transform[
    str, CompletedName(_match_divisions, is_slug=True, length_max=64)
]
Member = app_commands.Transform[str, CompletedName(_match_members, is_slug=True, length_max=64)]


class DeclarationForm(Form):
    """Asks for what a division demands."""

    def __init__(self, division: Division, before: Mapping[str, str], send: SendForm) -> None:
        super().__init__(title=division.title[:LABEL_LENGTH_MAX])
        self.send = send
        self.inputs: dict[str, discord.ui.TextInput[Any]] = {
            name: discord.ui.TextInput(
                label=name[:LABEL_LENGTH_MAX],
                default=before.get(name),
                max_length=DECLARATION_LENGTH_MAX,
            )
            for name in division.declare
        }
        for text_input in self.inputs.values():
            self.add_item(text_input)

    async def on_submit(self, interaction: BotInteraction) -> None:  # type: ignore[override]
        """Send what was written."""
        api = await defer(interaction)
        values = {name: text_input.value for name, text_input in self.inputs.items()}
        await self.send(interaction, api, values)


class DeclarationQuestion(Question):
    """A button that sends a decision, after a form if the division demands declarations."""

    def __init__(
        self,
        interaction: BotInteraction,
        label: str,
        division: Division,
        before: Mapping[str, str],
        send: SendForm,
    ) -> None:
        super().__init__(interaction, ASKED_S_MAX)
        self.division, self.before, self._send = division, before, send
        self.proceed.label = label

    @discord.ui.button(style=discord.ButtonStyle.primary)
    async def proceed(
        self, interaction: BotInteraction, _: discord.ui.Button["DeclarationQuestion"]
    ) -> None:
        """Open the form, or send at once if nothing is to be declared."""
        if self.division.declare:
            form = DeclarationForm(self.division, self.before, self.send)
            await interaction.response.send_modal(form)
        else:
            await self.send(interaction, await defer(interaction), {})

    @discord.ui.button(label="Cancel")
    async def cancel(
        self, interaction: BotInteraction, _: discord.ui.Button["DeclarationQuestion"]
    ) -> None:
        """Remove the buttons."""
        await interaction.response.edit_message(view=None)
        self.stop()

    async def send(
        self, interaction: BotInteraction, api: PlatformApi, values: Mapping[str, str]
    ) -> None:
        """Send the decision, and remove the buttons if it was accepted."""
        await self._send(interaction, api, values)
        await self.asked_by.edit_original_response(view=None)
        self.stop()


@app_commands.command(name="list")
async def list_(interaction: BotInteraction, state: State = "active") -> None:
    """The contests"""
    api = await defer(interaction)
    contests = (await api.get(Contests, CONTESTS)).items
    matching = [
        contest
        for contest in contests
        if state == "all"
        or (state == "over")
        == (contest.phase == ARCHIVE or contest.phase is contest.next_phase is None)
    ]
    empty = "There are no contests." if state == "all" else f"No contest is {state}."
    await reply_with_lines(interaction, texts.list_lines(matching), empty)


@app_commands.command()
async def show(interaction: BotInteraction, contest: ContestName) -> None:
    """A contest: its phases and problems, and your part in it"""
    api = await defer(interaction)
    details = await api.get(ContestDetails, CONTESTS, contest)
    await reply_with_card(interaction, texts.contest_card(details, now(), _page(api, contest)))


def _page(api: PlatformApi, contest: str) -> str:
    return api.link(f"/contests/{contest}")


@app_commands.command()
@app_commands.describe(round_="The newest one that began by default; practice is after the close")
@app_commands.rename(round_="round")
async def standing(
    interaction: BotInteraction, contest: ContestName, round_: Round | None = None
) -> None:
    """The standing of a contest"""
    api = await defer(interaction)
    query = {} if round_ is None else {"round": round_}
    answer = await api.get(ContestStanding, CONTESTS, contest, "standing", **query)
    await reply_with_card(interaction, texts.standing_card(answer, _page(api, contest)))


@app_commands.command()
@app_commands.describe(
    division="By default you choose", code="Of your invitation, if the contest demands one"
)
async def register(
    interaction: BotInteraction,
    contest: ContestName,
    division: DivisionName | None = None,
    code: TeamCode | None = None,
) -> None:
    """Take part in a contest: read and accept its terms"""
    api = await defer(interaction)
    details = await api.get(ContestDetails, CONTESTS, contest)
    _check_may_register(details)
    chosen = await _choose_division(interaction, details.contest, division)
    if chosen is None:
        return
    link = _page(api, contest)
    check_form(chosen, link)

    async def send(
        interaction: BotInteraction, api: PlatformApi, values: Mapping[str, str]
    ) -> None:
        path = (CONTESTS, contest, "registration")
        await api.request(
            DecisionResponse,
            "POST",
            *path,
            terms_digest=details.terms_digest,
            division=chosen.slug,
            declaration=dict(values),
            code=code or "",
        )
        await _show_part(interaction, api, contest, f"You are registered for `{contest}`.")

    view = DeclarationQuestion(interaction, "Accept the terms and register", chosen, {}, send)
    text, is_long = texts.terms_text(details, chosen.slug, link)
    files = [discord_file("terms.md", details.contest.terms.encode())] if is_long else []
    await reply(interaction, text, view, files)


def _check_may_register(details: ContestDetails) -> None:
    """Refuse before the terms are read what ingest would refuse afterwards."""
    contest = details.contest
    if details.own is not None:
        reason = "you are registered already: `/contest declare` changes what you declared"
        raise Refused("already_registered", reason)
    if not details.is_registration_open:
        if now() < contest.starts_at:
            reason = f"the registration opens {discord_time(contest.starts_at, 'R')}"
        else:
            reason = f"the registration closed {discord_time(contest.register_until_at, 'R')}"
        raise Refused("contest_closed", reason)


async def _choose_division(
    interaction: BotInteraction, contest: Contest, name: str | None
) -> Division | None:
    """Return the named or only division, or ask; None without an answer. Raises `Refused`."""
    names = [division.slug for division in contest.divisions]
    if name is None and len(names) > 1:
        menu = GpuMenu(interaction, names, 1, "Division")
        question = f"Which division of **{escaped(contest.title, texts.TITLE_MAX)}**?"
        choice = await menu.ask(question, "No division was chosen within two minutes.")
        if not choice:
            return None
        name = choice[0]
    division = contest.division(names[0] if name is None else name)
    if division is None:
        suggestion = did_you_mean(name or "", names) or f": there are {', '.join(names)}"
        raise Refused("invalid_request", f"there is no division {name!r}{suggestion}", "division")
    return division


def check_form(division: Division, link: str) -> None:
    """Refuse a division that demands more than a form takes. Raises `Refused`."""
    if len(division.declare) > FIELDS_MAX:
        reason = f"this division demands {len(division.declare)} declarations, and a form on "
        reason += f"Discord has {FIELDS_MAX} fields: take part on the contest's page instead"
        reason += f", <{link}>" if link else ""
        raise Refused("not_supported", reason, "division")


async def _show_part(
    interaction: BotInteraction, api: PlatformApi, contest: str, text: str
) -> None:
    """Confirm a decision, and show the part that the user takes now."""
    details = await api.get(ContestDetails, CONTESTS, contest)
    await reply_with_lines(interaction, [text, *texts.own_lines(details)])


@app_commands.command()
@app_commands.describe(division="Yours by default; it may change until the registration closes")
async def declare(
    interaction: BotInteraction, contest: ContestName, division: DivisionName | None = None
) -> None:
    """Change your division, or what you declared"""
    api = await defer(interaction)
    details = await api.get(ContestDetails, CONTESTS, contest)
    own = details.own
    if own is None:
        raise Refused("not_registered", "you are not registered: `/contest register` takes part")
    chosen = await _choose_division(interaction, details.contest, division or own.division)
    if chosen is None:
        return
    check_form(chosen, _page(api, contest))

    async def send(
        interaction: BotInteraction, api: PlatformApi, values: Mapping[str, str]
    ) -> None:
        path, body = (CONTESTS, contest, "declaration"), {"declaration": dict(values)}
        decision = await api.request(DecisionResponse, "PUT", *path, division=chosen.slug, **body)
        note = "" if decision.event else ALREADY
        await _show_part(interaction, api, contest, f"Your declaration is saved.{note}")

    demanded = ", ".join(escaped(name, 40) for name in chosen.declare)
    text = f"The division **{escaped(chosen.title, texts.NAME_MAX)}** of `{contest}` demands "
    text += f"{demanded}." if demanded else "no declaration."
    before = own.declaration or {}
    await reply(
        interaction, text, DeclarationQuestion(interaction, "Declare", chosen, before, send)
    )


@app_commands.command()
async def withdraw(interaction: BotInteraction, contest: ContestName) -> None:
    """Take no more part in a contest, and leave your team"""
    api = await defer(interaction)
    question = f"Take no more part in `{contest}`? You leave your team, too."
    if not await Confirmation(interaction, "Withdraw", "Stay", ASKED_S_MAX).ask(question):
        await reply(interaction, "Nothing changed.")
        return
    await api.request(DecisionResponse, "DELETE", CONTESTS, contest, "registration")
    await reply(interaction, f"You take no more part in `{contest}`.")


@app_commands.command(name="create")
@app_commands.describe(name="Everybody can read it, and it stays in the log")
async def create_team(interaction: BotInteraction, contest: ContestName, name: TeamName) -> None:
    """Form a team, of which you are the captain"""
    api = await defer(interaction)
    code = (await api.request(ContestCode, "POST", CONTESTS, contest, "team", name=name)).code
    text = f"You are the captain of **{escaped(name, texts.NAME_MAX)}**."
    await reply(interaction, f"{text} {_code_text(contest, code)}")


def _code_text(contest: str, code: str) -> str:
    return (
        f"Others join with `/contest team join`, the contest `{contest}` and this code, which is "
        f"shown only once: `{code}`"
    )


@app_commands.command(name="join")
@app_commands.describe(code="The captain of the team has it")
async def join_team(interaction: BotInteraction, contest: ContestName, code: TeamCode) -> None:
    """Join a team"""
    api, path = await defer(interaction), (CONTESTS, contest, "team", "join")
    await api.request(DecisionResponse, "POST", *path, code=code)
    await _show_part(interaction, api, contest, "You are in the team.")


@app_commands.command(name="leave")
async def leave_team(interaction: BotInteraction, contest: ContestName) -> None:
    """Leave your team"""
    api, path = await defer(interaction), (CONTESTS, contest, "team", "leave")
    await api.request(DecisionResponse, "POST", *path)
    await _show_part(interaction, api, contest, "You left the team.")


@app_commands.command(name="remove")
@app_commands.describe(participant="A member's name on the platform")
async def remove_member(
    interaction: BotInteraction, contest: ContestName, participant: Member
) -> None:
    """Remove a member of your team; for its captain"""
    api, path = await defer(interaction), (CONTESTS, contest, "team", "leave")
    await api.request(DecisionResponse, "POST", *path, participant=participant)
    text = f"**{escaped(participant)}** is no longer in the team."
    await _show_part(interaction, api, contest, text)


@app_commands.command(name="captain")
@app_commands.describe(participant="A member's name on the platform")
async def change_captain(
    interaction: BotInteraction, contest: ContestName, participant: Member
) -> None:
    """Make another member the captain; for the captain"""
    api, path = await defer(interaction), (CONTESTS, contest, "team", "captain")
    decision = await api.request(DecisionResponse, "PUT", *path, participant=participant)
    text = f"**{escaped(participant)}** is the captain.{'' if decision.event else ALREADY}"
    await _show_part(interaction, api, contest, text)


@app_commands.command(name="code")
async def change_code(interaction: BotInteraction, contest: ContestName) -> None:
    """Get a new code of your team to invite others; the old one is void"""
    api, path = await defer(interaction), (CONTESTS, contest, "team", "code")
    code = (await api.request(ContestCode, "POST", *path)).code
    await reply(interaction, _code_text(contest, code))


COMMANDS: Commands = (list_, show, standing, register, declare, withdraw)
TEAM_COMMANDS: Commands = (
    *(create_team, join_team, leave_team, remove_member, change_captain, change_code),
)
