"""Helpers for builds: a folder as a builder sees it, with a source, the header and the result."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.build import command
from harness.worker import programs

CPP = """\
#include "warpboard.h"
int custom_kernel(const wb_tensor *inputs, int, wb_tensor *outputs, int, const char *, void *) {
    const float *x = (const float *)inputs[0].data;
    float *y = (float *)outputs[0].data;
    for (int64_t i = 0; i < wb_numel(outputs); i++) y[i] = x[i] + 1;
    return 0;
}
"""


def built(
    folder: Path,
    name: str,
    source: str,
    memory: int,
    *,
    architecture: str = "",
    more_architectures: Sequence[str] = (),
    nvrtc: str = "",
    libraries: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> bytes:
    """Return the build result of a source; `variables` are of the compiler's environment.

    With `more_architectures` nvcc compiles for those too, and reads the host's code only once.
    Raises BuildRefused, SubmissionFailure.
    """
    order = ordered(
        folder, name, source, architecture=architecture, nvrtc=nvrtc, libraries=libraries
    )
    order["environment"] = {**command.compiler_environment(), **(variables or {})}
    for more in more_architectures:
        *_, option, target = command.compiler_arguments("cuda", more)
        order["arguments"] = (*order["arguments"], option, target)
    programs.run_build_order(order, memory)
    return contents(memory)


def ordered(
    folder: Path,
    name: str,
    source: str,
    *,
    architecture: str = "",
    nvrtc: str = "",
    libraries: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the build order of a source in a folder; `libraries` are folders of headers."""
    path = folder / name
    path.write_text(source)
    shutil.copyfile(command.HEADER, folder / "warpboard.h")
    language = command.detect_language(name)
    assert language is not None
    asked = command.parse_directives(source.encode(), language)
    made = str(folder / "made" / "built")
    includes = (*libraries, *(command.find_cuda_includes() if nvrtc else ()))
    place = command.BuildPaths(str(path), made, architecture, includes, nvrtc)
    order = command.make_build_order(asked, place)
    return asdict(replace(order, environment=command.compiler_environment()))


def contents(descriptor: int) -> bytes:
    """Return the content of a memory."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()
