"""How one submission is to be built on this machine, and under which name the result is kept."""

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from harness.messages import VERSION
from harness.problem import Problem
from harness.toolchains import probe
from harness.toolchains.cache import VARIABLES, key_of
from harness.toolchains.command import (
    DRIVER,
    HEADER,
    Bench,
    BuildRefused,
    Order,
    compiles_at_import,
    directives,
    fixed,
    is_for_nvcc,
    language_of,
    order,
)
from harness.toolchains.ncu import Ncu

_ANYWHERE = ("cpu", "cuda")
_KINDS = {"c++": "c++", "cuda": "cu"}
_COMPILERS = {"c++": "g++", "cuda": "nvcc", "hip": "hipcc", "nvrtc": "nvrtc"}


class ToolMissing(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """This machine has no compiler for the submission: the machine's fault."""


@dataclass(frozen=True)
class Workshop:
    """What a machine builds with, probed once: versions by name, folders, the processor, a GPU.

    `gpu` is the architecture of the GPU that submissions run on, such as sm_90a; "" without one.
    """

    tools: Mapping[str, str]
    environment: Mapping[str, str]
    includes: tuple[str, ...]
    nvrtc: str
    processor: str
    gpu: str = ""
    ncu: Ncu = field(default_factory=Ncu)


@dataclass(frozen=True)
class Plan:
    """What is to be done for one submission.

    With an `order` it is native: a builder carries the order out, and a worker is given the result
    and `launch`. Without one it is Python, and the result is a pack of its compile caches, made by
    the first worker that imports it; `is_heavy` if that one wants a builder's limits.
    """

    key: str
    order: Order | None = None
    launch: str = ""
    is_heavy: bool = False

    @property
    def is_native(self) -> bool:
        """Whether a compiler runs before any worker does."""
        return self.order is not None


def survey(gpu: str = "", headers: Mapping[str, str] | None = None, ncu: str = "") -> Workshop:
    """Looks at what is here; `headers` as in probe.probe, `ncu` stands in for it on any device."""
    return Workshop(
        tools=probe.probe(headers) | {"python": platform.python_version()},
        environment=probe.environment(gpu),
        includes=tuple(probe.includes(headers).values()),
        nvrtc=probe.nvrtc() or "",
        processor=probe.architecture(),
        gpu=gpu,
        ncu=Ncu(ncu, _ANYWHERE) if ncu else Ncu(probe.program("ncu")),
    )


def plan(workshop: Workshop, texts: Sequence[bytes], path: str, scratch: str) -> Plan:
    """What to do for a source that lies at `path` in its box, whose scratch folder is `scratch`.

    `texts` are the source, and what lies beside it for it to import: the problem's, by whose
    words the same source may leave something else behind.
    Errors: BuildRefused, if the submission asks for what it may not have; ToolMissing.
    """
    language, source = language_of(path), texts[0]
    whole = _whole(texts)
    if language is None:
        key = _key(workshop, whole, ())
        return Plan(key, is_heavy=compiles_at_import(source))
    asked = directives(source, language)
    if asked.language != "c++" and not workshop.gpu:
        raise BuildRefused(f"a {PurePath(path).suffix} submission needs a GPU, and there is none")
    compiler = _COMPILERS[asked.language]
    if compiler not in workshop.tools:
        raise ToolMissing(f"there is no {compiler} on this machine")
    includes = workshop.includes
    if asked.language == "nvrtc":
        includes = (*includes, *probe.cuda_includes())
    nvrtc = workshop.nvrtc if asked.language == "nvrtc" else ""
    bench = Bench(path, f"{scratch}/built/kernel", workshop.gpu, includes, nvrtc)
    made = replace(order(asked, bench), environment=workshop.environment)
    # Where a box's folders are named anew every time, the result is still the same.
    anywhere = order(asked, replace(bench, source="", output="")).arguments
    return Plan(_key(workshop, whole, anywhere), made, asked.launch)


def plan_driven(
    workshop: Workshop, problem: Problem, texts: Sequence[bytes], path: str, scratch: str
) -> Plan:
    """What to do for a submission to a problem in C++, which is compiled behind a driver of ours.

    `texts` are the submission, which is at `path` in the box, and what is compiled with it.
    Errors: BuildRefused; ToolMissing.
    """
    flags = directives(texts[0], "cuda" if workshop.gpu else "c++").flags
    defines = [f'-DWB_SUBMISSION="{PurePath(path).name}"']
    defines += ["-DWB_DEVICE_ARRAYS"] if problem.native.arrays == "device" else []
    folder, output = PurePath(path).parent, f"{scratch}/built/kernel"
    arguments = driven(workshop, problem, (*flags, *defines))
    sources = [str(folder / name) for name in (DRIVER.name, *problem.native.sources)]
    command = (*arguments, f"-I{folder}", *sources, "-o", output)
    made = Order(command, sources[0], output)
    key = _key(workshop, _whole((*texts, drivers())), arguments)
    return Plan(key, replace(made, environment=workshop.environment))


def driven(workshop: Workshop, problem: Problem, flags: Sequence[str] = ()) -> tuple[str, ...]:
    """The command line for one of the drivers, but for source and result. Errors: ToolMissing."""
    language = "cuda" if workshop.gpu else "c++"
    compiler = _COMPILERS[language]
    if compiler not in workshop.tools:
        raise ToolMissing(f"there is no {compiler} on this machine")
    includes = tuple(f"-I{folder}" for folder in workshop.includes)
    # What an author tells nvcc alone is not said to g++ on the cpu device.
    told = (one for one in problem.native.arguments() if workshop.gpu or not is_for_nvcc(one))
    own = (*told, *flags)
    return (*fixed(language, workshop.gpu), *own, *includes, "-x", _KINDS[language])


def program(workshop: Workshop, problem: Problem, path: str, scratch: str) -> Order:
    """How the own program of a problem in C++ is built with the submission, which is at `path`.

    Where the architecture of the GPU is not known, nvcc's usual one is loaded by newer ones, too.
    Errors: ToolMissing.
    """
    arguments = driven(workshop, problem)
    folder, output = PurePath(path).parent, f"{scratch}/built/program"
    sources = [str(folder / one) for one in (*problem.native.sources, PurePath(path).name)]
    told = [one for one in arguments if one != "-shared"]
    command = (*told, f"-I{folder}", *sources, "-o", output)
    return Order(command, sources[0], output, environment=workshop.environment)


def drivers() -> bytes:
    """All of our own text that a driver is compiled from, for the names of what is built."""
    return b"".join(path.read_bytes() for path in sorted(DRIVER.parent.iterdir()))


def environment(workshop: Workshop, scratch: str) -> dict[str, str]:
    """What every worker's environment holds so that it finds compilers and fills one cache.

    >>> shop = Workshop({}, {"PATH": "/usr/bin"}, (), "", "x86_64")
    >>> environment(shop, "/scratch")["TRITON_CACHE_DIR"]
    '/scratch/cache'
    """
    return {**workshop.environment, **dict.fromkeys(VARIABLES, cache_folder(scratch))}


def cache_folder(scratch: str) -> str:
    """Where all compile caches of a box lie, for worker.cache to pack and unpack."""
    return f"{scratch}/cache"


def _whole(texts: Sequence[bytes]) -> bytes:
    """Each by its digest: what one text ends with is not what the next begins with."""
    return b"".join(hashlib.sha256(text).digest() for text in texts)


def _key(workshop: Workshop, source: bytes, arguments: tuple[str, ...]) -> str:
    ours = f"{VERSION} {hashlib.sha256(HEADER.read_bytes()).hexdigest()}"
    where = f"{workshop.processor} {workshop.gpu}"
    return key_of(source, arguments, workshop.tools, where, ours)
