"""Evaluates many sources on the devices of this machine: a library, without a server.

The supervisors belong to a thread of the evaluator, so its callers may be synchronous or run any
event loop.
"""

import asyncio
import hashlib
import importlib
import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Literal, Self, TypeVar

from harness.build.command import LANGUAGES
from harness.devices.access import find_gpus
from harness.entry import DOUBTFUL, Progress, RunReport, RunRequest, StageFinished, Started
from harness.evaluations import Evaluation, measure_speedup
from harness.messages import failed_run
from harness.pool import HarnessPool, count_slots
from harness.vocabulary import (
    BOX_FILES,
    CPU_DEVICE,
    CPU_TYPE,
    EVALUATION_LEVEL_MIN,
    LEVELS,
    NOISY,
    PASSED,
)

Value = TypeVar("Value")
ItemId = str | int
EvaluationMode = Literal["test", "benchmark"]

# Enough that no slot waits for the caller, and few enough that a slow caller holds the rest back.
_IN_FLIGHT_PER_SLOT = 2
# A run that ended so, by no fault of the source, is repeated once.
_REPEATED = (*DOUBTFUL, NOISY)
_CACHED_MAX = 5_000
# What the entry file is called in a run, without its suffix.
_ENTRY = "submission"
_PROBE_S_MAX = 120.0
_STARTS_S_MAX = 600.0
_ENDS_S_MAX = 300.0
_PIPES_S_MAX = 30.0
# The part of `warpboard-shared` that compiles problems, which most callers bring.
_COMPILER, _ERRORS = "shared.problem_versions", "shared.errors"


class EvaluatorError(Exception):
    """The evaluator cannot work as asked: the message says why, and how to fix it."""


@dataclass(frozen=True)
class Source:
    """A source to evaluate; the suffix of its name tells its language.

    `others` are the files beside it, by their paths relative to it.
    """

    text: str | bytes
    name: str = "submission.py"
    others: Mapping[str, str | bytes] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        """The source as bytes."""
        return _as_bytes(self.text)

    @property
    def digest(self) -> str:
        """The SHA-256 of the source, or of all its files, in hexadecimal."""
        digest = hashlib.sha256(self.data)
        for name, text in sorted(self.others.items()):
            # No source has a NUL byte, so no other files have this digest.
            digest.update(b"\0".join([b"", name.encode(), _as_bytes(text)]))
        return digest.hexdigest()

    def write(self, folder: Path) -> Path:
        """Write the files into a new folder, and return the path of the entry."""
        suffix = PurePath(self.name).suffix
        entry = folder / f"{_ENTRY}{suffix if suffix in LANGUAGES else '.py'}"
        folder.mkdir()
        entry.write_bytes(self.data)
        for name, text in self.others.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_as_bytes(text))
        return entry


def _as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


Sources = (
    Mapping[ItemId, Source | str | bytes]
    | Iterable[tuple[ItemId, Source | str | bytes]]
    | Iterable[Source | str | bytes]
)


@dataclass(frozen=True)
class _Version:
    """A compiled problem version in a folder."""

    folder: Path
    digest: str
    ranking_by: str
    files_max: int
    names: frozenset[str]

    def check_files(self, id_: ItemId, source: Source) -> None:
        """Check the files beside a source. Raises EvaluatorError, naming the file."""
        if len(source.others) >= self.files_max:
            message = f"source {id_!r} has {1 + len(source.others)} files"
            raise EvaluatorError(f"{message}; this problem takes at most {self.files_max}")
        for name in source.others:
            path = PurePath(name)
            is_below = bool(path.parts) and not path.is_absolute() and ".." not in path.parts
            is_taken = path.stem == _ENTRY or (path.parts[:1] and path.parts[0] in self.names)
            if not is_below or is_taken:
                message = f"source {id_!r}: {name!r} cannot be the name of a file beside it"
                raise EvaluatorError(f"{message}: write a path relative to it that no file has")


@dataclass(frozen=True)
class _Order:
    """What one map asks for, the same for each of its sources."""

    version: _Version
    mode: str
    precision: float


@dataclass(frozen=True)
class _Device:
    """A device of this machine with its supervisors; `index` is that of a GPU, from 0."""

    kind: str
    index: int
    pool: HarnessPool

    @property
    def name(self) -> str:
        """The device as callers name it."""
        return self.kind if self.kind == CPU_DEVICE else f"{self.kind}:{self.index}"


class Evaluator:
    """Evaluates sources in isolated runs on the devices of this machine.

    `devices` are names such as `cpu` and `cuda:0`; "auto" is every GPU, or the processor of a
    machine without one. Each device has `slots` runs at once, by default one per core, and two for
    a GPU; only one at a time is timed. On a machine that isolates less than `level_min`, nothing is
    evaluated. Without `is_caching`, an equal source is run again in mode `test`. `state` is a
    folder for compiled code that outlives the evaluator; `options` are for tests.
    """

    def __init__(
        self,
        devices: Literal["auto"] | Sequence[str] = "auto",
        *,
        slots: int = 0,
        level_min: str = EVALUATION_LEVEL_MIN,
        is_caching: bool = True,
        state: str = "",
        **options: Any,
    ) -> None:
        if level_min not in LEVELS:
            raise EvaluatorError(f"unknown level {level_min!r}: expected {', '.join(LEVELS)}")
        self._names = devices
        self._slot_count = slots
        self._level_min = level_min
        self._is_caching = is_caching
        self._options = options | ({"state": state} if state else {})
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._devices: list[_Device] = []
        self._free: asyncio.LifoQueue[_Device] = asyncio.LifoQueue()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cache: OrderedDict[tuple[str, ...], Evaluation] = OrderedDict()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def start(self) -> None:
        """Start the supervisors and wait until they can take runs. Raises EvaluatorError."""
        if self._thread is not None:
            raise EvaluatorError("the evaluator has already been started")
        if importlib.util.find_spec("torch") is None:
            raise EvaluatorError("runs need torch: pip install 'warpboard-harness[torch]'")
        self._require_level()
        names = _list_devices() if self._names == "auto" else list(self._names)
        devices = [_parse_device(name) for name in names]
        if not devices or len(set(devices)) < len(devices):
            raise EvaluatorError(f"devices are {names}, expected different ones, at least one")
        self._folder = tempfile.TemporaryDirectory(prefix="warpboard-evaluator-")
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run_loop, args=(ready,), name="warpboard-evaluator", daemon=True
        )
        self._thread.start()
        ready.wait()
        try:
            self._call(self._start_pools(devices)).result(_STARTS_S_MAX)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every run and every supervisor."""
        if self._thread is None or self._loop is None:
            return
        try:
            self._call(self._end()).result(_ENDS_S_MAX)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_ENDS_S_MAX)
            self._thread = self._loop = None
            if self._folder is not None:
                self._folder.cleanup()

    @property
    def slots(self) -> int:
        """How many runs go on at once."""
        return sum(device.pool.slots for device in self._devices)

    @property
    def device_names(self) -> list[str]:
        """The devices that sources are evaluated on."""
        return [device.name for device in self._devices]

    def map(
        self,
        problem: str | Path,
        sources: Sources,
        mode: EvaluationMode = "test",
        *,
        precision: float = 0.0,
    ) -> "Evaluations":
        """Evaluate each source; iterate over the result, also with `async for`, as they finish.

        `problem` is the folder of a compiled version or, with `warpboard-shared` installed, a
        problem of any form: a folder, a KernelBench file, a FlashInfer-Trace definition. `sources`
        maps ids to sources; sources without ids are numbered from 0. A benchmark ends at this
        `precision`, the half width of an interval as a fraction; 0 is the mode's own, 5 %.
        Raises EvaluatorError.
        """
        if mode not in ("test", "benchmark"):
            raise EvaluatorError(f"unknown mode {mode!r}: expected test or benchmark")
        if not self._devices:
            raise EvaluatorError("the evaluator is not started: use it in a with statement")
        order = _Order(self._open_problem(Path(problem)), mode, precision)
        return Evaluations(self, order, _number_sources(sources))

    def submit(self, order: _Order, id_: ItemId, source: Source) -> "Future[Evaluation]":
        """Begin one evaluation."""
        return self._call(self._evaluate(order, id_, source))

    def _require_level(self) -> None:
        """Raise EvaluatorError on a machine that isolates too little."""
        # It forks, which a process with threads should not.
        process = subprocess.run(
            [sys.executable, "-I", "-m", "harness.sandbox.probe"],
            capture_output=True,
            timeout=_PROBE_S_MAX,
            check=True,
        )
        isolation = json.loads(process.stdout)
        level = self._options.get("level") or isolation["level"]
        if LEVELS.index(level) < LEVELS.index(self._level_min):
            missing = "; ".join(f"{wall['wall']}: {wall['fix']}" for wall in isolation["missing"])
            raise EvaluatorError(
                f"this machine isolates runs at level {level}, below {self._level_min}: a source "
                f"could cheat. Fix it ({missing}), or set level_min for sources that you trust"
            )

    def _run_loop(self, ready: threading.Event) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._loop.call_soon(ready.set)
            self._loop.run_forever()

    def _call(self, work: Coroutine[Any, Any, Value]) -> "Future[Value]":
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _start_pools(self, devices: Sequence[tuple[str, int]]) -> None:
        self._devices = [
            _Device(
                kind,
                index,
                HarnessPool(self._slot_count or count_slots(kind), device=kind, **self._options),
            )
            for kind, index in devices
        ]
        await asyncio.gather(*(device.pool.warm() for device in self._devices))
        for number in range(max(device.pool.slots for device in self._devices)):
            for device in self._devices:
                if number < device.pool.slots:
                    self._free.put_nowait(device)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(device.pool.close() for device in self._devices))
        self._devices = []
        # What reads the pipes of supervisors ends when nothing beneath them has a pipe open.
        readers = asyncio.all_tasks() - {asyncio.current_task()}
        if readers:
            await asyncio.wait(readers, timeout=_PIPES_S_MAX)

    def _open_problem(self, path: Path) -> _Version:
        """Return the compiled version of a problem. Raises EvaluatorError."""
        if not path.exists():
            raise EvaluatorError(f"there is no problem {path}")
        folder = path
        if not (path / "manifest.json").is_file():
            folder = self._compile_problem(path)
        manifest = (folder / "manifest.json").read_bytes()
        try:
            content = json.loads(manifest)
            ranking_by, names = content["ranking_by"], frozenset((*content["files"], *BOX_FILES))
            files_max = content.get("source_files_max", 1)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise EvaluatorError(f"{folder} has no manifest of a version: {error!r}") from error
        digest = hashlib.sha256(manifest).hexdigest()
        return _Version(folder.resolve(), digest, ranking_by, files_max, names)

    def _compile_problem(self, path: Path) -> Path:
        assert self._folder is not None
        try:
            compiler: Any = importlib.import_module(_COMPILER)
            refusal: type[Exception] = importlib.import_module(_ERRORS).Refused
        except ImportError as error:
            raise EvaluatorError(
                f"{path} is no compiled version, and nothing here compiles it: "
                "pip install 'warpboard-harness[problems]'"
            ) from error
        try:
            # The GPU types of a problem that names none.
            kind = self._devices[0].kind
            gpu = CPU_TYPE if kind == CPU_DEVICE else kind.upper()
            problem = compiler.load_problem(path, None, (gpu,))
        except refusal as refused:
            raise EvaluatorError(f"{path} is no problem: {refused}") from refused
        folder = Path(self._folder.name) / str(problem.digest)
        if not folder.exists():
            compiler.write_version(problem, folder)
        return folder

    async def _evaluate(self, order: _Order, id_: ItemId, source: Source) -> Evaluation:
        """Evaluate one source, unless an equal one has a verdict; raises only bugs."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        digest = source.digest
        key = (digest, PurePath(source.name).suffix, order.version.digest, order.mode)
        evaluation = self._cache.get(key)
        if evaluation is not None:
            self._cache.move_to_end(key)
            return replace(evaluation, id=id_, is_cached=True)
        device = await self._free.get()
        try:
            evaluation = await self._repeat_run(device, order, id_, source)
        finally:
            self._free.put_nowait(device)
        evaluation = replace(evaluation, source_digest=digest)
        # Times depend on the moment, so they are never reused. A run without a key never reported.
        if self._is_caching and order.mode == "test" and evaluation.verdict and evaluation.key:
            self._cache[key] = evaluation
            if len(self._cache) > _CACHED_MAX:
                self._cache.popitem(last=False)
        return evaluation

    async def _repeat_run(
        self, device: _Device, order: _Order, id_: ItemId, source: Source
    ) -> Evaluation:
        """Run a source, again if a supervisor died or the machine was too noisy for a time."""
        evaluation = await self._run(device, order, id_, source)
        if evaluation.failure_code not in _REPEATED and evaluation.grade != NOISY:
            return evaluation
        evaluation = await self._run(device, order, id_, source)
        if evaluation.failure_code == "supervisor":
            # It ends every run, also under another supervisor.
            reason = f"its run ended twice without a report: {evaluation.reason}"
            return replace(evaluation, verdict="crashed", failure_code="", reason=reason)
        return evaluation

    async def _run(self, device: _Device, order: _Order, id_: ItemId, source: Source) -> Evaluation:
        assert self._folder is not None
        environment: dict[str, str] = {}

        async def listen(message: Started | Progress | StageFinished) -> None:
            if isinstance(message, Started):
                environment.update(message.environment, level=message.level, tier=message.tier)

        with tempfile.TemporaryDirectory(dir=self._folder.name, prefix="run-") as folder:
            home = Path(folder)
            path, out = source.write(home / "source"), home / "out"
            out.mkdir()
            request = RunRequest(
                str(order.version.folder),
                str(path),
                order.mode,
                str(out),
                device=device.kind,
                level_min=self._level_min,
                gpus=[] if device.kind == CPU_DEVICE else [device.index],
                precision=order.precision if order.mode == "benchmark" else 0.0,
                is_shared=order.mode == "test",
                others=list(source.others),
            )
            if device.pool.has_left:
                reason = "a process of an earlier run could not be killed: restart this machine"
                report = failed_run("sandbox", reason)
            else:
                async with device.pool.lend() as harness:
                    report = await harness.evaluate(request, listen)
        return _make_evaluation(report, device, order, id_, environment)


class Evaluations:
    """The results of one map, as they finish; iterate once, with `for` or `async for`.

    Sources are taken from their iterable as slots become free. An interrupt loses nothing: the
    iteration can go on. `close` ends what was begun and not delivered.
    """

    def __init__(
        self, evaluator: Evaluator, order: _Order, sources: Iterator[tuple[ItemId, Source]]
    ) -> None:
        self._evaluator = evaluator
        self._order = order
        self._sources = sources
        self._ids: set[ItemId] = set()
        # By the future of an evaluation, its future in the caller's event loop, if it has one.
        self._pending: dict[Future[Evaluation], asyncio.Future[Evaluation] | None] = {}
        self._has_news = threading.Event()
        self._in_flight_max = _IN_FLIGHT_PER_SLOT * evaluator.slots
        weakref.finalize(self, _cancel_all, self._pending).atexit = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Evaluation:
        self._begin_more()
        while self._pending:
            self._has_news.clear()
            if future := self._find_finished():
                return self._take(future)
            self._has_news.wait()
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Evaluation:
        self._begin_more()
        while self._pending:
            if future := self._find_finished():
                return self._take(future)
            waiting = [
                here or asyncio.wrap_future(future) for future, here in self._pending.items()
            ]
            self._pending.update(zip(self._pending, waiting, strict=True))
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        raise StopAsyncIteration

    def close(self) -> None:
        """End the evaluations that were begun; the iteration is over."""
        self._sources = iter(())
        _cancel_all(self._pending)
        self._pending.clear()

    def _begin_more(self) -> None:
        has_news = self._has_news
        while len(self._pending) < self._in_flight_max:
            item = next(self._sources, None)
            if item is None:
                return
            id_, source = item
            if id_ in self._ids:
                raise EvaluatorError(f"two sources have the id {id_!r}")
            self._order.version.check_files(id_, source)
            with _without_interrupts():
                future = self._evaluator.submit(self._order, id_, source)
                self._pending[future] = None
                self._ids.add(id_)
            future.add_done_callback(lambda _: has_news.set())

    def _find_finished(self) -> "Future[Evaluation] | None":
        return next((future for future in self._pending if future.done()), None)

    def _take(self, future: "Future[Evaluation]") -> Evaluation:
        del self._pending[future]
        return future.result()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Delay an interrupt until the end of what is done within."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _cancel_all(futures: "Iterable[Future[Evaluation]]") -> None:
    for future in list(futures):
        future.cancel()


def _make_evaluation(
    report: RunReport,
    device: _Device,
    order: _Order,
    id_: ItemId,
    environment: Mapping[str, str],
) -> Evaluation:
    timed = [case for case in report.cases if case.stage == "time"]
    measured = None
    if report.verdict == PASSED and order.mode == "benchmark":
        measured = measure_speedup(order.version.ranking_by, timed, report.tie_us)
    return Evaluation(
        id=id_,
        mode=order.mode,
        verdict=report.verdict,
        reason=report.reason,
        failure_code=report.failure_code,
        stage=report.stage,
        cases=report.cases,
        speedup=measured.speedup if measured else None,
        interval=measured.interval if measured else None,
        time_us=measured.time_us if measured else None,
        time_interval_us=measured.interval_us if measured else None,
        grade=measured.grade if measured else "",
        composition=report.composition,
        doubts=report.composition.doubts if report.composition else [],
        log_head=report.log_head,
        log_tail=report.log_tail,
        took_s=report.took_s,
        usage=report.usage,
        device=device.name,
        level=environment.get("level", ""),
        tier=environment.get("tier", ""),
        key=report.key,
        problem_digest=order.version.digest,
        harness_code=environment.get("harness_code", ""),
    )


def _number_sources(sources: Sources) -> Iterator[tuple[ItemId, Source]]:
    """Yield each source with its id, or with its number if it has none."""
    items: Iterable[Any] = sources.items() if isinstance(sources, Mapping) else sources
    for number, item in enumerate(items):
        id_, source = item if isinstance(item, tuple) else (number, item)
        yield id_, source if isinstance(source, Source) else Source(source)


def _list_devices() -> list[str]:
    """Return every GPU of this machine, or the processor if it has none."""
    return [f"{gpu.device}:{gpu.index}" for gpu in find_gpus()] or [CPU_DEVICE]


def _parse_device(name: str) -> tuple[str, int]:
    """Return the kind and the number of a device. Raises EvaluatorError.

    >>> _parse_device("cpu"), _parse_device("cuda:1")
    (('cpu', 0), ('cuda', 1))
    """
    kind, _, number = name.partition(":")
    is_gpu = kind in ("cuda", "hip") and (number or "0").isdecimal()
    if name != CPU_DEVICE and not is_gpu:
        raise EvaluatorError(f"unknown device {name!r}: expected cpu, cuda:NUMBER or hip:NUMBER")
    return kind, int(number or "0")
