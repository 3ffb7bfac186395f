"""The submissions are hostile programs: they are run, never imported."""

collect_ignore = ["problem", "submissions"]
