"""Whether a leaderboard is what the log says, and the log what it was."""
