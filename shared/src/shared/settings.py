"""Settings: read once from the environment a service passes in, frozen, checked at the start."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from shared.errors import Refused

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


class Listen(NamedTuple):
    """Where a server listens, written `127.0.0.1:8000`."""

    host: str
    port: int

    def __str__(self) -> str:
        """As it is written in a setting."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _listen(text: str) -> Listen:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) <= 65535):
        raise ValueError(text)
    return Listen(host.removeprefix("[").removesuffix("]"), int(port))


def _bool(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text.lower()]


_READERS: dict[type, tuple[Callable[[str], object], str]] = {
    str: (str, "a text"),
    int: (int, "a whole number"),
    float: (float, "a number"),
    bool: (_bool, "true or false"),
    Path: (Path, "a path"),
    Listen: (_listen, "an address such as 127.0.0.1:8000"),
}


def _kind_of(hint: Any) -> type:
    """The type of a field: of `Path | None` it is Path, for None is only ever a default."""
    if isinstance(hint, types.UnionType):
        (hint,) = (one for one in typing.get_args(hint) if one is not types.NoneType)
    if hint not in _READERS:
        raise TypeError(f"a setting cannot be {hint}: {', '.join(k.__name__ for k in _READERS)}")
    return typing.cast("type", hint)


def _unknown(prefix: str, names: set[str], environ: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(environ):
        if name.startswith(f"{prefix}_") and name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
            yield f"{name} is no setting" + "".join(f"; the nearest is {one}" for one in near)


def _required(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def read(kind: type[T], prefix: str, environ: Mapping[str, str]) -> T:
    """The settings of a service from its `<prefix>_<FIELD>` variables.

    Errors: Refused `bad_settings`, with a sentence for every problem, not just the first.
    """
    hints = typing.get_type_hints(kind)
    fields = {f"{prefix}_{field.name.upper()}": field for field in dataclasses.fields(kind)}
    problems = list(_unknown(prefix, set(fields), environ))
    values: dict[str, object] = {}
    for name, field in fields.items():
        reader, expected = _READERS[_kind_of(hints[field.name])]
        if name not in environ:
            if _required(field):
                problems.append(f"{name} is missing: expected {expected}")
            continue
        try:
            values[field.name] = reader(environ[name])
        except (ValueError, KeyError):
            problems.append(f"{name} is {environ[name]!r}: expected {expected}")
    if problems:
        raise Refused("bad_settings", "; ".join(problems))
    return kind(**values)
