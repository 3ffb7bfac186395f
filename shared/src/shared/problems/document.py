"""A YAML document as plain values with line numbers, validated against pydantic models.

An error is explained in one sentence that names the line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

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
# YAML 1.1 reads these as numbers, booleans and dates, YAML 1.2 does not: public readers differ.
_AMBIGUOUS = re.compile(
    r"(yes|no|on|off)\Z|[-+]?0[0-9_]+\Z|[-+]?0b[01_]+\Z|[-+]?[0-9]+_[0-9_.]*\Z"
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?\Z"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(([Tt]|[ \t]+)[0-9][-0-9:.+Zz \t]*)?\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Document:
    """The contents of a YAML file; `lines` maps each value and key to its line."""

    name: str
    value: Any
    lines: Mapping[Path, int]

    def refuse(self, path: Path, reason: str) -> NoReturn:
        """Raise a refusal that names the file, the line nearest to the path, and the fix."""
        nearest = path
        while nearest and nearest not in self.lines:
            nearest = nearest[:-1]
        place = f", line {self.lines[nearest]}" if nearest else ""
        field = ".".join(map(str, path)) or None
        raise bad_problem(f"{self.name}{place}: {reason}", field)


def bad_problem(reason: str, field: str | None = None) -> Refused:
    """Return the refusal of a problem, for its author.

    >>> bad_problem("task.yml is missing").code
    'bad_problem'
    """
    return Refused("bad_problem", reason, field)


def quote_value(value: object) -> str:
    """Quote a value for a message, cut to sixty characters.

    >>> quote_value("a" * 100)[-9:]
    "aaaaa...'"
    """
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def read_document(name: str, data: bytes) -> Document:
    """Parse a file. Errors: Refused, whatever the bytes are."""
    if len(data) > YAML_BYTES_MAX:
        raise bad_problem(f"{name} has {len(data)} bytes: at most {YAML_BYTES_MAX}", name)
    try:
        text = data.decode("utf-8-sig")
        return _DocumentParser(name, yaml.parse(text, Loader=yaml.CSafeLoader)).document()
    except UnicodeDecodeError as error:
        raise bad_problem(f"{name} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f", line {mark.line + 1}"
        raise bad_problem(f"{name}{place}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())[:120]
        raise bad_problem(f"{name}: not YAML: {message}") from error


class _DocumentParser:
    """Builds values from parser events, without aliases, with limits on depth and count."""

    def __init__(self, name: str, events: Iterator[Any]) -> None:
        self._events = events
        self._lines: dict[Path, int] = {}
        self._empty_document = Document(name, None, self._lines)
        self._values = 0

    def document(self) -> Document:
        next(self._events)
        value = None
        if isinstance(next(self._events), yaml.DocumentStartEvent):
            value = self._build_value(next(self._events), ())
            next(self._events)
            following = next(self._events)
            if not isinstance(following, yaml.StreamEndEvent):
                self._lines["---",] = following.start_mark.line + 1
                self._empty_document.refuse(("---",), "a second document: keep only the first")
        return Document(self._empty_document.name, value, self._lines)

    def _build_value(self, event: Any, path: Path) -> Any:
        self._record_position(event, path)
        if isinstance(event, yaml.ScalarEvent):
            return self._build_scalar(event, path)
        if not isinstance(event, yaml.SequenceStartEvent):
            return self._build_mapping(path)
        items: list[Any] = []
        while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
            items.append(self._build_value(item, (*path, len(items))))
        return items

    def _record_position(self, event: Any, path: Path) -> None:
        self._lines.setdefault(path, event.start_mark.line + 1)
        self._values += 1
        if len(path) > DEPTH_MAX:
            self._empty_document.refuse(path, f"nested deeper than {DEPTH_MAX}: use fewer levels")
        if self._values > VALUES_MAX:
            self._empty_document.refuse(path, f"more than {VALUES_MAX} values: write fewer")
        if event.anchor is not None:
            reason = "anchors and aliases are not supported: write the value out"
            self._empty_document.refuse(path, reason)
        if event.tag is not None:
            reason = f"the tag {quote_value(event.tag)} is not supported: remove it"
            self._empty_document.refuse(path, reason)

    def _build_mapping(self, path: Path) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._build_key(event, path)
            self._lines[*path, key] = event.start_mark.line + 1
            if key in items:
                self._empty_document.refuse(
                    (*path, key), f"a second key {quote_value(key)}: write it once"
                )
            items[key] = self._build_value(next(self._events), (*path, key))
        return items

    def _build_key(self, event: Any, path: Path) -> str:
        self._record_position(event, path)
        line = event.start_mark.line + 1
        text = event.value if isinstance(event, yaml.ScalarEvent) else ""
        if text in ("", "<<"):
            self._lines[*path, text] = line
            merge = "merge keys are not supported: write the keys out"
            self._empty_document.refuse((*path, text), merge if text else "an empty key: name it")
        return self._check_text(text, path)

    def _build_scalar(self, event: yaml.ScalarEvent, path: Path) -> Any:
        text = self._check_text(event.value, path)
        if event.style:
            return text
        if _AMBIGUOUS.match(text):
            reason = f"some readers take {quote_value(text)} as a number, boolean or date"
            self._empty_document.refuse(path, f"{reason}: quote it, or write 0, 1, true or false")
        if len(text) > INT_CHARS_MAX and _INT.match(text):
            reason = f"{quote_value(text)} does not fit in 64 bits: write a smaller number"
            self._empty_document.refuse(path, reason)
        return plain_value(text)

    def _check_text(self, text: str, path: Path) -> str:
        if "\0" in text:
            self._empty_document.refuse(path, "NUL character: remove it")
        return text


def plain_value(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted word by YAML 1.2; numbers may be written as 1e-05.

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


Model = TypeVar("Model", bound=BaseModel)


class StrictModel(BaseModel):
    """A map in a problem file: no unknown keys, and no conversion of values to other types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def validate_document(document: Document, model: type[Model]) -> Model:
    """Validate a document. Errors: Refused, naming file, line, field and the fix."""
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        first = next(iter(model.model_fields))
        document.refuse((), f"a {_kind_of(value)}: write keys, such as {first}: ...")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        # A mistyped key also counts as a missing one: report the typing mistake.
        unknown_keys = (item for item in errors if item["type"] == "extra_forbidden")
        _refuse(document, model, next(unknown_keys, errors[0]))


def _refuse(document: Document, model: type[BaseModel], error: Mapping[str, Any]) -> NoReturn:
    path: Path = error["loc"]
    value, parent = error["input"], f" in {_field_text(path[:-1])}" if path[:-1] else ""
    actual = f"a {_kind_of(value)}" if isinstance(value, dict | list) else quote_value(value)
    match error["type"]:
        case "missing":
            reason = f"the key {quote_value(path[-1])} is missing{parent}: add it"
        case "extra_forbidden":
            known = _field_names(model, path[:-1])
            similar = get_close_matches(str(path[-1]), known, 1)
            known_text = f"there are {', '.join(known)}"
            fix = f"did you mean {quote_value(similar[0])}?" if similar else known_text
            reason = f"unknown key {quote_value(path[-1])}{parent}: {fix}"
        case "model_type" | "dict_type":
            example = "".join(f", such as {name}: ..." for name in _field_names(model, path)[:1])
            reason = f"{_field_text(path)} must be a map{example}, not {actual}"
        case "too_short" | "too_long" | "string_too_short" | "string_too_long":
            least, most = error["ctx"].get("min_length", 0), error["ctx"].get("max_length")
            bound = f"at least {least}" if most is None else f"at most {most}"
            reason = f"{_field_text(path)} has a length of {len(value)}: write {bound}"
        case _:
            wording = error["msg"].replace("Input should be", "must be")
            wording = wording.replace("String should", "should")
            wording = wording[:1].lower() + wording[1:]
            reason = f"{_field_text(path)} {wording}, not {actual}"
    document.refuse(path, reason)


def _field_text(path: Path) -> str:
    return quote_value(".".join(str(part) for part in path if part != "[key]"))


def _kind_of(value: object) -> str:
    if isinstance(value, dict):
        return "map"
    return "list" if isinstance(value, list) else "single value"


def _field_names(model: type[BaseModel], path: Path) -> list[str]:
    """Return the fields of the model at a path, through lists and optional fields."""
    current: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, str):
            field = None if current is None else current.model_fields.get(part)
            current = None if field is None else _model_in(field.annotation)
    return [] if current is None else list(current.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (_model_in(part) for part in get_args(annotation))
    return next((model for model in models if model), None)
