"""The scheduler's core: the state folded from the log, and the decisions that are due."""
