"""What participants are to be called: a file with ids and names."""

import json
import re
from typing import Any

from shared.errors import Refused

FILE_BYTES_MAX = 256 * 1024
NAMES_MAX = 200
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
FORM = 'a JSON object such as {"<id>": "<name>"}, as `/admin get-user-names` gives it'


def wanted(data: bytes, known: dict[str, str]) -> dict[str, str]:
    """The names that a file changes, by id; `known` are those that there are. Errors: Refused.

    >>> wanted(b'{"1": "ada", "2": "bob"}', {"1": "ada", "2": "eve"})
    {'2': 'bob'}
    """
    found = _read(data)
    changed = {one: name for one, name in found.items() if known.get(one) != name}
    strange = [one for one in changed if one not in known]
    if strange:
        raise _bad(f"{strange[0][:60]!r} is no participant's id; nothing was changed")
    for one, name in changed.items():
        if not isinstance(name, str) or not NAME.match(name):
            what = f"{str(name)[:60]!r} is no name for {one}: 1 to 32 of a-z 0-9 _ and -"
            raise _bad(f"{what}, a letter or digit first; nothing was changed")
    if len(changed) > NAMES_MAX:
        raise _bad(f"{len(changed)} names would change: at most {NAMES_MAX} at once")
    return changed


def _read(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad(f"the file is no JSON: attach {FORM}") from error
    if not isinstance(found, dict):
        raise _bad(f"the file is no object: attach {FORM}")
    return found


def _bad(what: str) -> Refused:
    return Refused("bad_file", what, "attachment")
