"""A second ranker writes nothing, and serves what the first one writes."""

from ranker.service.progress import LEADERBOARDS, ProjectionProgress


def test_readers_of_a_standby_see_what_the_other_instance_folds() -> None:
    progress = ProjectionProgress()
    progress.advance(7)
    before = progress.leaderboard_version("vectoradd")
    with progress.follow(LEADERBOARDS) as moved:
        progress.follow_checkpoint(7)
        assert not moved.is_set()
        assert progress.leaderboard_version("vectoradd") == before
        progress.follow_checkpoint(9)
        assert moved.is_set()
    assert progress.seq == 9
    assert progress.leaderboard_version("vectoradd") != before
