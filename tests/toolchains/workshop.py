"""A folder as a box shows it to a builder: a source, the header beside it, room for the result."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from harness.toolchains import command, probe
from harness.worker import builder

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
    folder: Path, name: str, source: str, memory: int, *, architecture: str = "", nvrtc: str = ""
) -> bytes:
    """What a builder hands over for a source. Errors: BuildRefused, Unusable."""
    builder.build(ordered(folder, name, source, architecture=architecture, nvrtc=nvrtc), memory)
    return contents(memory)


def ordered(
    folder: Path, name: str, source: str, *, architecture: str = "", nvrtc: str = ""
) -> dict[str, object]:
    """The order for a source that was laid into a folder."""
    path = folder / name
    path.write_text(source)
    shutil.copyfile(command.HEADER, folder / "warpboard.h")
    language = command.language_of(name)
    assert language is not None
    asked = command.directives(source.encode(), language)
    made = str(folder / "made" / "built")
    includes = probe.cuda_includes() if nvrtc else ()
    place = command.Bench(str(path), made, architecture, includes, nvrtc)
    order = command.order(asked, place)
    return replace(order, environment=probe.environment()).to_json()


def contents(descriptor: int) -> bytes:
    """All that a memory holds."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()
