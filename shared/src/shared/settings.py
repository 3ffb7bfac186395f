"""Settings: read once from the given environment, frozen, checked at the start."""

import dataclasses
import difflib
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from shared.bus_keys.login import BusLogin
from shared.errors import Refused

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LOOPBACK = ("127.0.0.1", "localhost", "::1")
T = TypeVar("T", bound="DataclassInstance")
# A value of each required setting, by the name of its field: messages show it.
EXAMPLES = {
    "agent_credentials": "/etc/warpboard/agent-gpu-1.creds",
    "data": "/var/lib/warpboard",
    "edge_token": "0123456789abcdef",
    "guild": "1300000000000000000",
    "id": "gpu-1",
    "ingest_url": "http://127.0.0.1:8000",
    "listen": "127.0.0.1:8000",
    "nats_url": "nats://127.0.0.1:4222",
    "ops_listen": "127.0.0.1:9101",
    "postgres_dsn": "postgresql://{role}@127.0.0.1/warpboard",
    "ranker_url": "http://127.0.0.1:8001",
    "reader_key": "0123456789abcdef",
    "token": "a bot's token",
}


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
Tracing = typing.Annotated[
    bool,
    Doc(
        "export [traces](docs/operating/traces.md) by OTLP; the variables of OpenTelemetry say "
        "where to",
        "true without the extra `tracing`: no start; true without a collector: a warning for every "
        "batch",
    ),
]
LocalWebhooks = typing.Annotated[
    bool,
    Doc(
        "webhooks may lead [to this machine](docs/webhooks.md#on-your-own-machine)",
        "refused unless `LISTEN` is loopback: participants could reach services behind a firewall",
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BusSettings:
    """How a process reaches the bus, and logs in there."""

    nats_url: Address
    nats_credentials: typing.Annotated[
        str,
        Doc(
            "the `.creds` file of this process ([keys](docs/operating/keys.md))",
            "no start: the bus lets nobody in without it; that of another process: what this one "
            "needs is refused",
        ),
    ] = dataclasses.field(default="", repr=False)
    nats_ca: typing.Annotated[
        str,
        Doc(
            "the PEM file of the CA that signed the certificates of the NATS servers",
            "no start: their certificates are not trusted",
            "the system's CAs",
        ),
    ] = ""

    @property
    def bus_login(self) -> BusLogin:
        """How to log in to the bus."""
        return BusLogin(self.nats_url, self.nats_credentials, self.nats_ca)


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


class BadSettings(Refused):
    """Settings with problems, each of which names the setting, what is wrong and what to write."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("bad_settings", "; ".join(problems))
        self.problems = list(problems)


def read_variables(prefix: str) -> dict[str, str]:
    """Return the variables of this process that begin with a prefix."""
    return {name: value for name, value in os.environ.items() if name.startswith(prefix)}


def print_problems(load: Callable[[], object]) -> int:
    """Print each problem of the settings on a line of its own; return the exit code.

    This is `python -m SERVICE check`, which `warpboard server doctor` runs.
    """
    try:
        load()
    except BadSettings as bad:
        sys.stdout.write("".join(f"{problem}\n" for problem in bad.problems))
        return 2
    return 0


def read_settings(
    kind: type[T],
    prefix: str,
    environ: Mapping[str, str],
    checks: Iterable[Callable[[T], object]] = (),
) -> T:
    """Read a service's settings from its `<prefix>_<FIELD>` variables, and check them.

    A check raises Refused. In place of a value that is missing or wrong it gets the default or an
    example, so that every other problem is found as well. Raises `BadSettings` with all problems.
    """
    values, problems = _read_fields(kind, prefix, environ)
    settings = kind(**values)
    for check in checks:
        try:
            check(settings)
        except BadSettings as bad:
            problems += bad.problems
        except Refused as refused:
            problems.append(refused.reason)
    if problems:
        raise BadSettings(problems)
    return settings


def _read_fields(
    kind: type[T], prefix: str, environ: Mapping[str, str]
) -> tuple[dict[str, object], list[str]]:
    """Return the values, with examples of what is required and missing, and the problems."""
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
        if field.default is field.default_factory is dataclasses.MISSING:
            example = EXAMPLES[field.name].format(role=prefix.lower())
            values[field.name] = parse(example)
            if name not in environ:
                problems.append(f"{name} is missing: set it, for example {name}={example}")
        try:
            if name in environ:
                values[field.name] = parse(environ[name])
        except (ValueError, KeyError):
            problems.append(f"{name} is {environ[name]!r}: expected {expected}")
    return values, problems
