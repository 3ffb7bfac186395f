"""Examples for the OpenAPI document: what each field of a request may say, by its name."""

from typing import Any

REASON = "the kernel returns a result that it kept from another call"
# One name means one thing here (docs/glossary.md), so one example serves wherever it stands.
FIELDS: dict[str, Any] = {
    "bucket": "identity.H100.ranked",
    "cli_id": "Zk3v0hQ2mJx9bR7cT5nW1yLqPa8sDfGe",
    "client_id": "warpboard on a laptop",
    "code": "inv_Zk3v0hQ2mJx9bR7cT5nW1yLqPa8s",
    "command": "psql",
    "confirm": False,
    "count": 1,
    "deadline_at": "2027-01-31T12:00:00Z",
    "deny": False,
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "device_code": "Zk3v0hQ2mJx9bR7cT5nW1yLqPa8sDfGe",
    "events": ["submission.ended", "submission.ranked"],
    "every_s": 3600,
    "expires_at": "2027-01-31T12:00:00Z",
    "expires_in_days": 90,
    "file": "def custom_kernel(data):\n    return data\n",
    "files": ["lang: py\n"],
    "from_version": 1,
    "gpu": "H100",
    "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
    "is_accepted": True,
    "leaderboards": ["identity"],
    "limit": 20,
    "mode": "ranked",
    "name": "laptop",
    "note": "tiles of 64 x 64",
    "owner": "lab",
    "participant": "ada",
    "problem": "identity",
    "problems": ["identity"],
    "provider": "github",
    "ratio_max": 1.05,
    "reason": REASON,
    "role": "creator",
    "rule": "results are computed anew in every call",
    "scope": "submit read:own",
    "scopes": ["submit", "read:own"],
    "secret": "a-secret-of-16-characters-or-more",
    "select": "best",
    "seq": 1207,
    "sign_key": "MCowBQYDK2VwAyEAZk3v0hQ2mJx9bR7cT5nW1yLqPa8=",
    "slug": "identity",
    "subject": "4242",
    "submission": 1207,
    "tag": "tiles",
    "target": "the database of the read models",
    "text": "the result is computed anew: see line 12",
    "to_version": 2,
    "until_at": "2027-01-31T12:00:00Z",
    "url": "https://hooks.example.org/warpboard",
    "user_code": "BCDF-GHJK",
    "visibility": "closed",
    "window_s": 3600,
}
JSON = "application/json"


def give_examples(document: dict[str, Any]) -> None:
    """Put an example to each field of each request's body, and to the body as a whole."""
    for said in document["paths"].values():
        for operation in said.values():
            for media, content in operation.get("requestBody", {}).get("content", {}).items():
                schema = _found(document, content["schema"])
                fields = schema.get("properties", {})
                known = [name for name in fields if name in FIELDS]
                whole = {name: _example(name, fields[name]) for name in known}
                for name, value in whole.items():
                    fields[name]["example"] = value
                if media == JSON:
                    content["example"] = whole


def _found(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema itself, wherever it stands."""
    name = schema.get("$ref", schema.get("allOf", [{}])[0].get("$ref", ""))
    if not name and "anyOf" in schema:
        return _found(document, schema["anyOf"][0])
    if not name:
        return schema
    found: dict[str, Any] = document["components"]["schemas"][name.rpartition("/")[2]]
    return found


def _example(name: str, schema: dict[str, Any]) -> Any:
    kinds = [schema, *schema.get("anyOf", [])]
    is_list = any(kind.get("type") == "array" for kind in kinds)
    value = FIELDS[name]
    return [value] if is_list and not isinstance(value, list) else value
