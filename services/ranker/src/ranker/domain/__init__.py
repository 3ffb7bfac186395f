"""The ranker's decisions: pure functions of events."""
