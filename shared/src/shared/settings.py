"""Settings: read once from the given environment, frozen, checked at the start."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from shared.errors import Refused

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LOOPBACK = ("127.0.0.1", "localhost", "::1")
T = TypeVar("T", bound="DataclassInstance")


class Doc(NamedTuple):
    """What the documentation says about a setting, from which its tables are generated.

    Settings with the same `Doc` share a row. `default` is written instead of the field's own;
    `group` names the table, if a service has several. Links begin at the root of the repository.
    """

    meaning: str
    wrong: str
    default: str = ""
    group: str = ""


class Listen(NamedTuple):
    """The address a server listens on, written `127.0.0.1:8000`."""

    host: str
    port: int

    def __str__(self) -> str:
        """Format the address as in a setting."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


SERVERS = Doc(
    "addresses of NATS, Postgres and other services",
    "`/healthz` names the server that does not answer",
)
Address = typing.Annotated[str, SERVERS]
ApiListen = typing.Annotated[
    Listen, Doc("the address of its API", "the process ends if the address is in use")
]
OpsListen = typing.Annotated[
    Listen,
    Doc(
        "the address of `/healthz` and `/metrics`",
        "the process ends if the address is in use; a public one can be read by anybody",
    ),
]
ReaderKey = typing.Annotated[
    str,
    Doc(
        "at least 16 characters, the same for ingest and ranker: requests with this key may name "
        "the reader",
        "if they differ, ranker refuses every read; whoever knows it reads what any participant "
        "may read",
    ),
]
Replicas = typing.Annotated[
    int,
    Doc(
        "the number of NATS servers that store everything: 3 on a cluster. Existing streams get "
        "more at the start, and never fewer",
        "1 on a cluster: its first lost server takes the log with it; 3 on one server: no start",
    ),
]
LocalWebhooks = typing.Annotated[
    bool,
    Doc(
        "webhooks may lead [to this machine](docs/webhooks.md#on-your-own-machine)",
        "refused unless `LISTEN` is loopback: participants could reach services behind a firewall",
    ),
]


def _parse_listen(text: str) -> Listen:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) <= 65535):
        raise ValueError(text)
    return Listen(host.removeprefix("[").removesuffix("]"), int(port))


_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_PARSERS: dict[type, tuple[Callable[[str], object], str]] = {
    str: (str, "a string"),
    int: (int, "an integer"),
    float: (float, "a number"),
    bool: (lambda text: _BOOLS[text.lower()], "true or false"),
    Path: (Path, "a path"),
    Listen: (_parse_listen, "an address such as 127.0.0.1:8000"),
}


def _field_type(hint: Any) -> type:
    """Return the type of a field; for `Path | None` it is Path, since None is only a default."""
    if isinstance(hint, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    if hint not in _PARSERS:
        supported = ", ".join(parsed_type.__name__ for parsed_type in _PARSERS)
        raise TypeError(f"a setting cannot be {hint}: expected one of {supported}")
    return typing.cast("type", hint)


def read_settings(kind: type[T], prefix: str, environ: Mapping[str, str]) -> T:
    """Read a service's settings from its `<prefix>_<FIELD>` variables.

    Errors: Refused `bad_settings`, listing all problems, not just the first.
    """
    hints = typing.get_type_hints(kind)
    fields = {f"{prefix}_{field.name.upper()}": field for field in dataclasses.fields(kind)}
    problems, values = list[str](), dict[str, object]()
    for name in sorted(environ):
        if name.startswith(f"{prefix}_") and name not in fields:
            similar = difflib.get_close_matches(name, fields, n=1, cutoff=0.0)
            closest = "".join(f"; the closest one is {setting}" for setting in similar)
            problems.append(f"{name} is not a setting{closest}")
    for name, field in fields.items():
        parse, expected = _PARSERS[_field_type(hints[field.name])]
        if name not in environ:
            if field.default is field.default_factory is dataclasses.MISSING:
                problems.append(f"{name} is missing: expected {expected}")
            continue
        try:
            values[field.name] = parse(environ[name])
        except (ValueError, KeyError):
            problems.append(f"{name} is {environ[name]!r}: expected {expected}")
    if problems:
        raise Refused("bad_settings", "; ".join(problems))
    return kind(**values)
