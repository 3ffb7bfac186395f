"""Drawing what a leaderboard's progress was, and how the times of a submission are spread."""

import gzip
import io
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.clock import now
from shared.errors import Failed, Refused
from warpboard.domain import charts
from warpboard.domain.answers import read
from warpboard.domain.charts import Point, Progress, Spread
from warpboard.domain.outcome import OK
from warpboard.domain.oversight import History, Records
from warpboard.domain.progress import News
from warpboard.service import identity
from warpboard.service.ports import Api, Disk, Plots, Screen
from warpboard.service.reading import Which, gpus

SAMPLES = "samples.json.gz"
PACKED_BYTES_MAX = 64 * 1024 * 1024
BYTES_MAX = 512 * 1024 * 1024


@dataclass(frozen=True)
class Wanted:
    """What is drawn: the progress, or the samples of a submission; here or into a file."""

    is_plotted: bool
    samples: int | None
    png: Path | None
    as_json: bool

    @property
    def is_any(self) -> bool:
        """Whether anything is to be drawn at all."""
        return self.is_plotted or self.samples is not None


@dataclass(frozen=True)
class Drawing:
    """Draws for somebody; `who` is None if a token says it."""

    disk: Disk
    plots: Plots
    screen: Screen
    who: str | None

    async def draw(self, api: Api, which: Which, wanted: Wanted) -> int:
        """Draw one chart. Errors: Refused; Failed."""
        chart: Progress | Spread
        if wanted.samples is not None:
            chart = await self._spread(api, wanted.samples)
        else:
            chart = await self._progress(api, which)
        if wanted.png is not None:
            with self.screen.live([wanted.png.name]) as live:
                live.show(wanted.png.name, News("drawing"))
                self.disk.write(wanted.png, self.plots.png(chart))
        if wanted.as_json:
            file = None if wanted.png is None else str(wanted.png)
            self.screen.json({"file": file} | _document(chart))
        elif wanted.png is not None:
            self.screen.say(f"{wanted.png} shows {chart.title}")
        else:
            self._show(chart)
        return OK

    def _show(self, chart: Progress | Spread) -> None:
        if isinstance(chart, Progress):
            lines = charts.progress_lines(chart)
        else:
            lines = charts.spread_lines(chart)
        for line in lines:
            self.screen.say(line)

    async def _progress(self, api: Api, which: Which) -> Progress:
        types = await gpus(api, which)
        if len(types) != 1:
            raise Refused("unknown_gpu", f"name one of {', '.join(types)} after the problem", "gpu")
        (gpu,) = types
        version = {} if which.version is None else {"version": which.version}
        answer = await api.get("leaderboards", which.problem, gpu, "records", **version)
        found = sorted(read(answer, Records).items, key=lambda one: one.at)
        records = [Point(one.at, one.score_us, one.number) for one in found if one.is_standing]
        owner, own = await self._own(api, which.problem, gpu, version)
        return Progress(f"{which.problem} on {gpu}", records, own, owner, now())

    async def _own(
        self, api: Api, problem: str, gpu: str, version: dict[str, int]
    ) -> tuple[str, list[Point]]:
        """One's own ranked submissions; none for who has no name here."""
        try:
            name = await identity.name(api, self.who)
            wanted = {"problem": problem, "gpu": gpu}
            answer = await api.get("participants", name, "history", **wanted, **version)
        except Refused:
            return "", []
        found = [
            Point(one.received_at, one.score_us, one.number)
            for one in read(answer, History).items
            if one.counts and one.score_us is not None and one.received_at is not None
        ]
        return name, sorted(found, key=lambda one: one.at)

    async def _spread(self, api: Api, number: int) -> Spread:
        pieces, left = [], PACKED_BYTES_MAX
        try:
            async for piece in api.download(number, SAMPLES):
                left -= len(piece)
                if left < 0:
                    raise Failed(f"the samples of submission {number} are too large to draw")
                pieces.append(piece)
        except Refused as refused:
            if refused.code != "not_found":
                raise
            what = f"submission {number} has no samples that you may see: was it timed?"
            raise Refused("no_samples", what, "--samples") from refused
        cases = samples(b"".join(pieces))
        if not cases:
            raise Refused("no_samples", f"submission {number} was not timed", "--samples")
        return Spread(f"the calls of submission {number}", cases)


def samples(packed: bytes) -> list[tuple[str, list[float]]]:
    """The times of all counted calls, case by case, of a file of samples. Errors: Failed."""
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            found = json.loads(file.read(BYTES_MAX))["cases"]
        timed = [(name, _times(one)) for name, one in found.items()]
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise Failed(f"the samples cannot be read: {type(error).__name__} {error}") from error
    return [(name, times) for name, times in timed if times]


def _times(case: Any) -> list[float]:
    blocks = (block for process in case["processes"] for block in process["blocks"])
    return [
        float(time_us)
        for block in blocks
        if block.get("is_counted", True)
        for time_us in block["time_us"]
        if time_us is not None
    ]


def _document(chart: Progress | Spread) -> dict[str, Any]:
    """A chart for a program."""
    if isinstance(chart, Spread):
        cases = [{"name": name, "time_us": list(values)} for name, values in chart.cases]
        return {"title": chart.title, "cases": cases}
    return {
        "title": chart.title,
        "records": [_point(one) for one in chart.records],
        "own": [_point(one) for one in chart.own],
        "owner": chart.owner or None,
    }


def _point(one: Point) -> dict[str, Any]:
    return {"at": one.at.isoformat(), "score_us": one.time_us, "number": one.number}
