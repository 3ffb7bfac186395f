"""The loop of ranker: follow the log, fold batches into Postgres, decide and announce."""
