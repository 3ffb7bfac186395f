"""JSON Schemas of the files of a problem, generated from the models that validate them.

They cover keys, types and limits of single values. What depends on several values or files, such as
the arguments of a case, is checked only when a problem is compiled.
"""

from functools import cache
from typing import Any

from pydantic.json_schema import models_json_schema

from shared.problems.task_yml import NativeYml, TaskYml
from shared.problems.warpboard_yml import WarpboardYml

# The dialect that editors understand best.
DIALECT = "http://json-schema.org/draft-07/schema#"
TASK, WARPBOARD = "task.json", "warpboard.json"


@cache
def problem_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of `task.yml` as `task.json`, and that of `warpboard.yml` likewise."""
    references, task = models_json_schema(
        [(TaskYml, "validation"), (NativeYml, "validation")], ref_template="#/$defs/{model}"
    )
    is_native = {"properties": {"lang": {"const": "cu"}}, "required": ["lang"]}
    return {
        TASK: {
            "$schema": DIALECT,
            "title": "task.yml",
            "description": "A problem of Warpboard: its files, cases and budgets.",
            "type": "object",
            # As `read_task` chooses the model.
            "if": is_native,
            "then": references[NativeYml, "validation"],
            "else": references[TaskYml, "validation"],
            "$defs": task["$defs"],
        },
        WARPBOARD: {"$schema": DIALECT}
        | WarpboardYml.model_json_schema()
        | {
            "title": "warpboard.yml",
            "description": "Settings of a Warpboard problem beside its task.yml; all are optional.",
        },
    }
