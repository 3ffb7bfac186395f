"""The second copy of the log in Postgres, chained and sealed."""
