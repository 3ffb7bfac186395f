"""A YAML document as plain values with the line of each, and sentences about them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from shared.errors import Refused

YAML_BYTES_MAX = 128 * 1024
DEPTH_MAX = 12
VALUES_MAX = 20_000
INT_CHARS_MAX = 24

Path = tuple[str | int, ...]

_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*|0x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(
    r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?\Z"
    r"|[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z"
)
# YAML 1.1 makes numbers, truths and dates of these, YAML 1.2 does not: public readers differ.
_AMBIGUOUS = re.compile(
    r"(yes|no|on|off)\Z|[-+]?0[0-9_]+\Z|[-+]?0b[01_]+\Z|[-+]?[0-9]+_[0-9_.]*\Z"
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?\Z"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(([Tt]|[ \t]+)[0-9][-0-9:.+Zz \t]*)?\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Document:
    """What a YAML file says; `lines` tells where each value and key stands."""

    name: str
    value: Any
    lines: Mapping[Path, int]

    def refuse(self, path: Path, what: str) -> NoReturn:
        """Raises the sentence that names the file, the line nearest to the path, and the mend."""
        near = path
        while near and near not in self.lines:
            near = near[:-1]
        place = f", line {self.lines[near]}" if near else ""
        field = ".".join(map(str, path)) or None
        raise bad_problem(f"{self.name}{place}: {what}", field)


def bad_problem(reason: str, field: str | None = None) -> Refused:
    """The refusal of a problem, for its author.

    >>> bad_problem("task.yml is missing").code
    'bad_problem'
    """
    return Refused("bad_problem", reason, field)


def shown(value: object) -> str:
    """A value as a sentence may quote it, cut to sixty characters.

    >>> shown("a" * 100)[-9:]
    "aaaaa...'"
    """
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def read_document(name: str, data: bytes) -> Document:
    """The document in a file. Errors: Refused, whatever the bytes are."""
    if len(data) > YAML_BYTES_MAX:
        raise bad_problem(f"{name} has {len(data)} bytes: at most {YAML_BYTES_MAX}", name)
    try:
        text = data.decode("utf-8-sig")
        return _Reader(name, yaml.parse(text, Loader=yaml.CSafeLoader)).document()
    except UnicodeDecodeError as error:
        raise bad_problem(f"{name} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f", line {mark.line + 1}"
        raise bad_problem(f"{name}{place}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())[:120]
        raise bad_problem(f"{name}: not YAML: {said}") from error


class _Reader:
    """Walks the parser's events, which expand nothing, with bounds on depth and on number."""

    def __init__(self, name: str, events: Iterator[Any]) -> None:
        self._events = events
        self._lines: dict[Path, int] = {}
        self._so_far = Document(name, None, self._lines)
        self._values = 0

    def document(self) -> Document:
        """The one document of the stream."""
        next(self._events)
        value = None
        if isinstance(next(self._events), yaml.DocumentStartEvent):
            value = self._value(next(self._events), ())
            next(self._events)
            rest = next(self._events)
            if not isinstance(rest, yaml.StreamEndEvent):
                self._lines["---",] = rest.start_mark.line + 1
                self._so_far.refuse(("---",), "a second document: keep the first alone")
        return Document(self._so_far.name, value, self._lines)

    def _value(self, event: Any, path: Path) -> Any:
        self._note(event, path)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path)
        return self._map(path)

    def _note(self, event: Any, path: Path) -> None:
        self._lines.setdefault(path, event.start_mark.line + 1)
        self._values += 1
        if len(path) > DEPTH_MAX:
            self._so_far.refuse(path, f"nested deeper than {DEPTH_MAX}: write it flatter")
        if self._values > VALUES_MAX:
            self._so_far.refuse(path, f"more than {VALUES_MAX} values: write fewer")
        if event.anchor is not None:
            self._so_far.refuse(path, "anchors and aliases are not read: write the value out")
        if event.tag is not None:
            self._so_far.refuse(path, f"the tag {shown(event.tag)} is not read: leave it out")

    def _list(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _map(self, path: Path) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, path)
            self._lines[*path, key] = event.start_mark.line + 1
            if key in items:
                self._so_far.refuse((*path, key), f"a second key {shown(key)}: say it once")
            items[key] = self._value(next(self._events), (*path, key))
        return items

    def _key(self, event: Any, path: Path) -> str:
        self._note(event, path)
        line = event.start_mark.line + 1
        text = event.value if isinstance(event, yaml.ScalarEvent) else ""
        if text in ("", "<<"):
            self._lines[*path, text] = line
            what = (
                "merged keys are not read: write them out"
                if text
                else "a key that is no word: name it"
            )
            self._so_far.refuse((*path, text), what)
        return self._text(text, path)

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> Any:
        text = self._text(event.value, path)
        if event.style:
            return text
        if _AMBIGUOUS.match(text):
            what = f"{shown(text)} is a number, a truth or a date to some readers: put it in quotes"
            self._so_far.refuse(path, f"{what}, or write 0, 1, true or false")
        if len(text) > INT_CHARS_MAX and _INT.match(text):
            self._so_far.refuse(path, f"{shown(text)} does not fit in 64 bits: write a smaller one")
        return plain_value(text)

    def _text(self, text: str, path: Path) -> str:
        if "\0" in text:
            self._so_far.refuse(path, "NUL: leave it out")
        return text


def plain_value(text: str) -> str | int | float | bool | None:
    """What an unquoted word means, as YAML 1.2 has it; a number may be written as 1e-05.

    >>> [plain_value(text) for text in ("", "True", "0x10", "-3", "1e-05", "1.5", "normal", "08")]
    [None, True, 16, -3, 1e-05, 1.5, 'normal', '08']
    """
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.match(text):
        return int(text, 16 if "x" in text else 10)
    if _FLOAT.match(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
