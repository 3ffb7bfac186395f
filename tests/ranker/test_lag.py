"""The age of what is shown does not follow from a time that an agent named."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from ranker import metrics
from ranker.service.progress import ProjectionProgress
from shared import events, subjects
from shared.clock import now
from shared.event_log import RecordedEvent
from shared.events import Fact
from shared.wire import EventMetadata, make_envelope
from tests.support.examples import example_event

FALSE = [timedelta(days=-20_000), timedelta(days=20_000)]
AGE_S = 2.0


def written(kind: type[Fact], aggregate: str, age: timedelta) -> RecordedEvent:
    stamp = EventMetadata("id", now() - age, "", "", "")
    return RecordedEvent(1, make_envelope(example_event(kind), aggregate, stamp))


@pytest.mark.parametrize("age", FALSE, ids=["past", "future"])
def test_a_report_with_a_false_time_changes_no_measured_age(
    monkeypatch: pytest.MonkeyPatch, age: timedelta
) -> None:
    registry = CollectorRegistry()
    for name in ("Counter", "Gauge"):
        kind = getattr(metrics, name)
        monkeypatch.setattr(
            metrics, name, lambda *given, kind=kind: kind(*given, registry=registry)
        )
    measured, progress = metrics.RankerMetrics(), ProjectionProgress()
    report = written(events.RunCompleted, subjects.report("a1", "r1"), age)
    honest = written(events.JobLeased, subjects.job("j1"), timedelta(seconds=AGE_S))

    def ages() -> Sequence[float]:
        shown = registry.get_sample_value("warpboard_ranker_projection_lag_seconds")
        assert shown is not None
        return shown, progress.lag_s(now())

    for batch in ([report], [honest, report], [report, report]):
        measured.folded(batch, 1)
        progress.record([event._replace(seq=event.seq) for event in batch], 1)
        assert all(0 <= age_s < AGE_S + 60 for age_s in ages()), ages()
    assert all(age_s >= AGE_S for age_s in ages())


def test_an_unreadable_report_has_no_age() -> None:
    progress = ProjectionProgress()
    report = written(events.RunCompleted, subjects.report("a1", "r1"), timedelta())
    unreadable = msgspec.structs.replace(report.envelope, type="Unreadable")
    progress.record([report._replace(envelope=unreadable)], 1)
    assert progress.lag_s(now()) == 0.0
