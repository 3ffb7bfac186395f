"""Bodies that Discord refuses, and which judge must: its document, or the rules in prose."""

from typing import Any, NamedTuple

DOCUMENT, RULES, LINT = "document", "rules", "lint"


class Case(NamedTuple):
    """A body sent somewhere: `hook` (a follow-up), `message`, `commands`, `thread`, `modal`."""

    name: str
    where: str
    body: Any
    judge: str


def button(**said: Any) -> dict[str, Any]:
    return {"type": 2, "style": 1, "label": "x", "custom_id": "c"} | said


def row(*components: Any) -> dict[str, Any]:
    return {"type": 1, "components": list(components)}


def options(count: int) -> list[dict[str, str]]:
    return [{"label": str(n), "value": str(n)} for n in range(count)]


def menu(**said: Any) -> dict[str, Any]:
    return {"type": 3, "custom_id": "s", "options": options(2)} | said


def command(**said: Any) -> dict[str, Any]:
    return {"name": "leaderboard", "description": "d", "type": 1} | said


def option(name: str, **said: Any) -> dict[str, Any]:
    return {"type": 3, "name": name, "description": "d"} | said


def sub(name: str, **said: Any) -> dict[str, Any]:
    return option(name, type=1) | said


def _choices(*names: str) -> list[dict[str, str]]:
    return [{"name": one, "value": one} for one in names]


def _modal(**said: Any) -> dict[str, Any]:
    field = {"type": 4, "custom_id": "a", "style": 1, "label": "l"}
    label = {k: v for k, v in said.items() if k == "label"}
    data = {"custom_id": "m", "title": "t", "components": [row(field | label)]}
    return {"type": 9, "data": data | {k: v for k, v in said.items() if k != "label"}}


def _messages() -> list[Case]:
    embeds = [
        ("11 embeds", [{"title": "t"}] * 11, DOCUMENT),
        ("an embed's title of 257", [{"title": "t" * 257}], DOCUMENT),
        ("an embed's description of 4097", [{"description": "t" * 4097}], DOCUMENT),
        ("26 fields", [{"fields": [{"name": "a", "value": "b"}] * 26}], DOCUMENT),
        ("a field of 1025", [{"fields": [{"name": "a", "value": "b" * 1025}]}], DOCUMENT),
        ("a colour of 2^24", [{"title": "a", "color": 1 << 24}], DOCUMENT),
        ("a time that is none", [{"title": "a", "timestamp": "yesterday"}], DOCUMENT),
        ("6001 characters", [{"description": "t" * n} for n in (4000, 2001)], RULES),
        ("an empty field", [{"fields": [{"name": "a", "value": ""}]}], RULES),
        ("an embed without anything", [{"color": 1}], RULES),
    ]
    many = {"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}}
    return [
        *(Case(name, "hook", {"embeds": said}, judge) for name, said, judge in embeds),
        Case("a follow-up of 2001", "hook", {"content": "x" * 2001}, DOCUMENT),
        Case("a message of 4001", "message", {"content": "x" * 4001}, DOCUMENT),
        Case("a message of 2001", "message", {"content": "x" * 2001}, RULES),
        Case("a number for text", "hook", {"content": 5}, DOCUMENT),
        Case("nothing", "hook", {"content": ""}, RULES),
        Case("mentions told twice", "hook", many, RULES),
        Case(
            "an unknown kind of mentions",
            "hook",
            {"content": "x", "allowed_mentions": {"parse": ["all"]}},
            DOCUMENT,
        ),
        Case("an unknown file", "hook", {"content": "x", "attachments": [{"id": "77"}]}, RULES),
        Case("an unknown field", "hook", {"content": "x", "contnet": "y"}, LINT),
    ]


def _components() -> list[Case]:
    six = [button(custom_id=str(n)) for n in range(6)]
    bare = {"type": 2, "style": 1, "label": "x"}
    twice = [{"label": "a", "value": "1"}] * 2
    texts = {"label": "x", "value": "1"}
    cases = [
        ("no option", [row(menu(options=[]))], DOCUMENT),
        ("26 options", [row(menu(options=options(26)))], DOCUMENT),
        *(
            (f"an option's {key} of 101", [row(menu(options=[texts | {key: "x" * 101}]))], DOCUMENT)
            for key in ("label", "value", "description")
        ),
        ("a placeholder of 151", [row(menu(placeholder="p" * 151))], DOCUMENT),
        ("a custom_id of 101", [row(button(custom_id="c" * 101))], DOCUMENT),
        ("a button's label of 81", [row(button(label="l" * 81))], DOCUMENT),
        ("6 buttons in a row", [row(*six)], DOCUMENT),
        ("an unknown component", [row({"type": 99, "custom_id": "x"})], DOCUMENT),
        ("6 rows", [row(one) for one in six], RULES),
        ("a button outside a row", [button()], DOCUMENT),
        ("a select beside a button", [row(menu(), button())], RULES),
        ("a custom_id twice", [row(button(), button())], RULES),
        ("more values than options", [row(menu(max_values=5))], RULES),
        ("fewer values than needed", [row(menu(min_values=2, max_values=1))], RULES),
        ("an option twice", [row(menu(options=twice))], RULES),
        ("two defaults of one", [row(menu(options=_defaults()))], RULES),
        ("a link with a custom_id", [row(button(style=5, url="https://x.y"))], RULES),
        ("a button with a link", [row(button(url="https://x.y"))], RULES),
        ("a button without custom_id", [row(bare)], RULES),
        ("a button without a label", [row({"type": 2, "style": 1, "custom_id": "c"})], RULES),
    ]
    found = [Case(name, "hook", {"components": said}, judge) for name, said, judge in cases]
    v2 = {"flags": 1 << 15, "content": "x", "components": [{"type": 10, "content": "y"}]}
    return [*found, Case("text beside components of version 2", "hook", v2, RULES)]


def _defaults() -> list[dict[str, Any]]:
    return [{**one, "default": True} for one in options(2)]


def _commands() -> list[Case]:
    group = {"type": 2, "name": "g", "description": "d"}
    inner = [option(f"o{n}", description="d" * 100) for n in range(4)]
    large = [sub(f"s{n}", description="d" * 100, options=inner) for n in range(20)]
    needed = [option("a"), option("b", required=True)]
    both = [option("a", autocomplete=True, choices=_choices("a"))]
    cases = [
        ("a name of 33", [command(name="x" * 33)], DOCUMENT),
        ("a description of 101", [command(description="x" * 101)], DOCUMENT),
        ("26 sub-commands", [command(options=[sub(f"s{n}") for n in range(26)])], DOCUMENT),
        (
            "26 choices",
            [command(options=[option("o", choices=_choices(*"abcdefghijklmnopqrstuvwxyz"))])],
            DOCUMENT,
        ),
        (
            "a choice of 101",
            [command(options=[option("o", choices=_choices("n" * 101))])],
            DOCUMENT,
        ),
        ("a group in a group", [command(options=[group | {"options": [group]}])], DOCUMENT),
        ("upper case", [command(name="Leaderboard")], RULES),
        ("a space", [command(name="leader board")], RULES),
        ("no description", [command(description="")], RULES),
        ("a needed option last", [command(options=needed)], RULES),
        ("choices and autocomplete", [command(options=both)], RULES),
        ("a choice twice", [command(options=[option("o", choices=_choices("a", "a"))])], RULES),
        ("a sub-command beside an option", [command(options=[sub("a"), option("b")])], RULES),
        ("an option twice", [command(options=[option("a"), option("a")])], RULES),
        ("a command twice", [command(), command()], RULES),
        ("101 commands", [command(name=f"c{n}") for n in range(101)], RULES),
        ("above 8000 characters", [command(options=large)], RULES),
    ]
    return [Case(name, "commands", said, judge) for name, said, judge in cases]


def _others() -> list[Case]:
    auto = {"type": 8, "data": {"choices": _choices(*"abcdefghijklmnopqrstuvwxyz")}}
    long = {"type": 8, "data": {"choices": _choices("n" * 101)}}
    return [
        Case("a thread without a name", "thread", {"name": "", "type": 11}, DOCUMENT),
        Case("a thread's name of 101", "thread", {"name": "x" * 101, "type": 11}, DOCUMENT),
        Case(
            "5 minutes to the archive",
            "thread",
            {"name": "x", "type": 11, "auto_archive_duration": 5},
            DOCUMENT,
        ),
        Case("a thread of type 0", "thread", {"name": "x", "type": 0}, DOCUMENT),
        Case("a post without a message", "post", {"name": "x"}, DOCUMENT),
        Case(
            "a post with an unknown tag",
            "post",
            {"name": "x", "applied_tags": ["7"], "message": {"content": "x"}},
            RULES,
        ),
        Case("a post of 2001", "post", {"name": "x", "message": {"content": "x" * 2001}}, RULES),
        Case("a modal's title of 46", "modal", _modal(title="t" * 46), DOCUMENT),
        Case("a modal's label of 46", "modal", _modal(label="l" * 46), DOCUMENT),
        Case("26 choices offered", "auto", auto, DOCUMENT),
        Case("a choice offered of 101", "auto", long, DOCUMENT),
        Case("an unknown answer", "modal", {"type": 77}, DOCUMENT),
        Case("choices for a command", "modal", {"type": 8, "data": {"choices": []}}, RULES),
        Case("a message for an autocomplete", "auto", {"type": 4, "data": {"content": "x"}}, RULES),
        Case("a deferral with a flag", "modal", {"type": 5, "data": {"flags": 4}}, RULES),
    ]


def every_case() -> list[Case]:
    """The table."""
    return [*_messages(), *_components(), *_commands(), *_others()]
