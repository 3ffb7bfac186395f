"""Examples for the OpenAPI document, by field name."""

from typing import Any

REASON = "the kernel returns a result that it kept from another call"
# A name has one meaning (docs/glossary.md), so one example serves everywhere.
FIELDS: dict[str, Any] = {
    "bucket": "identity.H100.ranked",
    "cli_id": "Zk3v0hQ2mJx9bR7cT5nW1yLqPa8sDfGe",
    "client_id": "warpboard on a laptop",
    "code": "inv_Zk3v0hQ2mJx9bR7cT5nW1yLqPa8s",
    "command": "psql",
    "confirm": False,
    "consent": "What I send in may be read by everybody after the deadline.\n",
    "count": 1,
    "branch": "main",
    "deadline": "2027-01-31T12:00:00Z",
    "deadline_at": "2027-01-31T12:00:00Z",
    "deadline_near": "dm",
    "deny": False,
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "directory": "identity",
    "device_code": "Zk3v0hQ2mJx9bR7cT5nW1yLqPa8sDfGe",
    "dry_run": True,
    "events": ["submission.ended", "submission.ranked"],
    "every_s": 3600,
    "expires_at": "2027-01-31T12:00:00Z",
    "expires_in_days": 90,
    "file": "def custom_kernel(data):\n    return data\n",
    "filename": "identity.parquet",
    "files": ["lang: py\n"],
    "first": 47,
    "force": False,
    "from_version": 1,
    "gpu": "H100",
    "gpus": ["H100", "A100"],
    "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
    "is_accepted": True,
    "leaderboard": "identity",
    "leaderboard_ids": [46021094017],
    "leaderboards": ["identity"],
    "licence_problem": "MIT",
    "licence_submissions": "Apache-2.0",
    "limit": 20,
    "max_submissions_per_hour": 10,
    "mode_category": "test",
    "mode": "ranked",
    "name": "laptop",
    "note": "tiles of 64 x 64",
    "overtaken": "dm",
    "owner": "lab",
    "participant": "ada",
    "problem": "identity",
    "problem_set": "autumn",
    "problems": ["identity"],
    "provider": "github",
    "private": True,
    "publish": "after_close",
    "quota": ["ranked=10/day"],
    "quotas": ["ranked=10/day", "H100.test=60/hour"],
    "ranking_by": "geom",
    "ranked_line": "off",
    "ratio_max": 1.05,
    "reason": REASON,
    "report": "{}",
    "repository": "ada/kernels",
    "role": "creator",
    "rule": "results are computed again in every call",
    "run_finished": "off",
    "scope": "submit read:own",
    "scopes": ["submit", "read:own"],
    "secret": "a-secret-of-16-characters-or-more",
    "second": 12,
    "select": "best",
    "seq": 1207,
    "sign_key": "MCowBQYDK2VwAyEAZk3v0hQ2mJx9bR7cT5nW1yLqPa8=",
    "slug": "identity",
    "source_visible": "after_close",
    "subject": "4242",
    "submission": 1207,
    "tag": "tiles",
    "target": "the database of the read models",
    "text": "the result is computed again: see line 12",
    "threads": "per_problem",
    "title": "Copy a vector",
    "to_version": 2,
    "unchecked": "the machine that checks is away; checked by hand",
    "until": "2027-01-31T12:00:00Z",
    "until_at": "2027-01-31T12:00:00Z",
    "url": "https://hooks.example.org/warpboard",
    "user_code": "BCDF-GHJK",
    "visibility": "closed",
    "window_s": 3600,
}
JSON = "application/json"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
AT = "2026-11-21T12:00:00Z"
# Values of response fields, where the type says too little.
TOLD: dict[str, Any] = {
    "agent": "gpu-7",
    "artifacts": [{"name": "profile-1207-0.zip", "url": "/jobs/1207/artifacts/0"}],
    "bytes": 2048,
    "code": "ranked",
    "codes": ["inv_Zk3v0hQ2mJx9bR7cT5nW1yLqPa8s"],
    "description": "Copy the input.",
    "detail": "the kernel is wrong for n=64",
    "event": "IntakePaused",
    "file_name": "kernel.py",
    "gpu": "H100",
    "gpu_type": "H100",
    "gpus": ["H100"],
    "gpu_types": ["H100"],
    "id": "01a1fe70a8047827b3a039e1f99403c8",
    "leaderboard": "identity",
    "leaderboard_name": "identity",
    "media": "text/plain",
    "message": "Submission 1207 is running on H100: benchmark 3/7",
    "name": "ada",
    "number": 1207,
    "participant": "ada",
    "participant_id": "01a1fe70a8047827b3a039e1f99403c8",
    "problem": "identity",
    "reason": "",
    "score": 0.0000105,
    "score_us": 10.5,
    "slug": "identity",
    "status": "succeeded",
    "submission": "01a1fe70a8047827b3a039e1f99403c8",
    "submission_id": 1207,
    "title": "Identity",
    "token": "wb_Zk3v0hQ2mJx9bR7cT5nW1yLqPa8sDfGe",
    "url": "/v1/submissions/1207/files/log.txt",
    "user_name": "ada",
    "verdict": "passed",
}
PLAIN: dict[str, Any] = {"string": "", "integer": 1, "number": 1.5, "boolean": False, "null": None}
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
}


def give_examples(document: dict[str, Any]) -> None:
    """Add an example to each field of each request body, and to each body and response."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for media, content in operation.get("requestBody", {}).get("content", {}).items():
                schema = _resolve_schema(document, content["schema"])
                fields = schema.get("properties", {})
                example_fields = [name for name in fields if name in FIELDS]
                example = {name: _example(name, fields[name]) for name in example_fields}
                for name, value in example.items():
                    fields[name]["example"] = value
                if media == JSON:
                    content["example"] = example
            _give_response_examples(document, operation)


def _give_response_examples(document: dict[str, Any], operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        content = response.get("content", {}).get(JSON, {})
        if status.startswith("2") and content.get("schema"):
            content["example"] = _response_example(document, "", content["schema"])


def _response_example(document: dict[str, Any], name: str, schema: dict[str, Any]) -> Any:
    """Return an example response for a schema; `name` is the field that has it."""
    schema = _dereference(document, schema)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if "anyOf" in schema:
        return _response_example(document, name, schema["anyOf"][0])
    kind = schema.get("type", "object")
    if isinstance(TOLD.get(name), KINDS.get(kind, ())) and "format" not in schema:
        return TOLD[name]
    if kind == "array":
        items = schema.get("prefixItems") or [schema["items"]] * schema.get("minItems", 1)
        return [_response_example(document, name.removesuffix("s"), item) for item in items]
    if kind == "object":
        fields = schema.get("properties", {})
        return {
            key: _response_example(document, key, field_schema)
            for key, field_schema in fields.items()
        }
    return _text(schema) if kind == "string" else PLAIN[kind]


def _text(schema: dict[str, Any]) -> str:
    if schema.get("format") == "date-time":
        return AT
    return DIGEST if "64" in schema.get("pattern", "") else PLAIN["string"]


def _dereference(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    target: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return target


def _resolve_schema(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema itself if it is a reference."""
    name = schema.get("$ref", schema.get("allOf", [{}])[0].get("$ref", ""))
    if not name and "anyOf" in schema:
        return _resolve_schema(document, schema["anyOf"][0])
    if not name:
        return schema
    target: dict[str, Any] = document["components"]["schemas"][name.rpartition("/")[2]]
    return target


def _example(name: str, schema: dict[str, Any]) -> Any:
    kinds = [schema, *schema.get("anyOf", [])]
    is_list = any(kind.get("type") == "array" for kind in kinds)
    value = FIELDS[name]
    return [value] if is_list and not isinstance(value, list) else value
