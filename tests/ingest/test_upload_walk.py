"""The way of an upload through ingest is the one that ARCHITECTURE lists."""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import NamedTuple

import ingest
from tests.support.door import ADA, KERNEL, Door

# The tasks of a request inherit it, and no others.
IS_UPLOAD: ContextVar[bool] = ContextVar("IS_UPLOAD", default=False)
ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
KEY = {"Idempotency-Key": "k1"}
PACKAGE = Path(ingest.__file__).parent
ROUTES = "submissions.routes"
# Behind the ports.
ADAPTERS = ("ranker_http", "postgres")


class Step(NamedTuple):
    """A function of ingest that began, by its module below `ingest`."""

    module: str
    function: str


@contextmanager
def profiled(frames: list[FrameType]) -> Iterator[None]:
    """Collect the frames in which functions of ingest begin, of this request alone."""
    begun: set[int] = set()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        # A coroutine is called again each time it goes on. Kept frames have different ids.
        is_call = event == "call" and frame.f_code.co_filename.startswith(f"{PACKAGE}/")
        if is_call and IS_UPLOAD.get() and id(frame) not in begun:
            begun.add(id(frame))
            frames.append(frame)

    token = IS_UPLOAD.set(True)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        IS_UPLOAD.reset(token)


def find_properties() -> set[CodeType]:
    """The code of the properties of ingest's classes, which only read a value."""
    modules = [module for name, module in sys.modules.items() if name.startswith("ingest.")]
    classes = [it for module in modules for it in vars(module).values() if isinstance(it, type)]
    members = [member for class_ in classes for member in vars(class_).values()]
    getters = [member.fget for member in members if isinstance(member, property)]
    return {getter.__code__ for getter in getters if isinstance(getter, FunctionType)}


def steps_of(frames: Sequence[FrameType]) -> list[Step]:
    """The functions from the route on, without adapters."""
    properties = find_properties()
    steps = [
        Step(
            ".".join(Path(frame.f_code.co_filename).relative_to(PACKAGE).with_suffix("").parts),
            frame.f_code.co_name,
        )
        for frame in frames
        if not frame.f_code.co_name.startswith("<") and frame.f_code not in properties
    ]
    first = next(index for index, step in enumerate(steps) if step.module == ROUTES)
    return [step for step in steps[first:] if step.module not in ADAPTERS]


def described_steps() -> list[Step]:
    """The functions that ARCHITECTURE lists."""
    text = ARCHITECTURE.read_text()
    listed = text[text.index("From its route on") : text.index("A read goes through")]
    names = re.findall(r"`([a-z_.]+)`", listed)
    return [Step(*name.rsplit(".", 1)) for name in names]


async def test_an_upload_takes_the_steps_that_architecture_lists(door: Door) -> None:
    # The first upload loads histories that later ones only continue.
    await door.submit()
    frames: list[FrameType] = []
    with profiled(frames):
        answer = await door.submit(KERNEL + b"# again\n", headers=ADA | KEY)
    assert answer.status_code == 202
    steps, described = steps_of(frames), described_steps()

    visits = Counter(module for module, _ in groupby(step.module for step in steps))
    assert {module: count for module, count in visits.items() if count > 2} == {}

    assert visits.keys() == {step.module for step in described}
    following = iter(steps)
    missing = [step for step in described if step not in following]
    assert not missing, f"not in this order: {missing[0]}; the steps were {steps}"
