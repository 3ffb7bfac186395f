"""When a nats-server that stores nothing is restarted."""

import itertools

from warpboard.processes.child import CHECK_S, RestartPolicy


class Timeline:
    """A policy that is asked every two seconds."""

    def __init__(self) -> None:
        self.policy = RestartPolicy()
        self.now_s = 100.0

    def restarts(self, for_s: float, *, is_failing: bool, has_room: bool = True) -> list[float]:
        """After how many seconds of this it restarted."""
        began_s, restarts = self.now_s, []
        while self.now_s < began_s + for_s:
            if self.policy.is_due(is_failing=is_failing, has_room=has_room, now_s=self.now_s):
                restarts.append(self.now_s - began_s)
            self.now_s += CHECK_S
        return restarts


def test_a_short_failure_restarts_nothing() -> None:
    timeline = Timeline()
    assert timeline.restarts(4, is_failing=True) == []
    assert timeline.restarts(60, is_failing=False) == []


def test_a_full_disk_waits_for_room() -> None:
    timeline = Timeline()
    assert timeline.restarts(300, is_failing=True, has_room=False) == []
    assert timeline.restarts(4, is_failing=True) == [0.0]


def test_restarts_that_do_not_help_become_rare() -> None:
    restarts = Timeline().restarts(3600, is_failing=True)
    pauses = [later - sooner for sooner, later in itertools.pairwise(restarts)]
    assert pauses[:5] == [60.0, 120.0, 240.0, 480.0, 600.0]
    assert max(pauses) == 600.0


def test_after_a_restart_that_helped_the_next_failure_is_treated_like_the_first() -> None:
    """The disk fills and empties once a minute, as it did in ten minutes of chaos."""
    timeline = Timeline()
    for _ in range(10):
        assert timeline.restarts(10, is_failing=True) == [6.0]
        assert timeline.restarts(50, is_failing=False) == []


def test_a_moment_without_a_failure_is_no_proof_that_a_restart_helped() -> None:
    timeline, restarts = Timeline(), []
    for _ in range(100):
        restarts += timeline.restarts(20, is_failing=True)
        restarts += timeline.restarts(10, is_failing=False)
    assert len(restarts) < 10
