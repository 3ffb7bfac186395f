"""The scheduler's decisions: what the log means, and what is due."""
