"""Everything we send to NATS: the adapters of the log, the blobs and the bus."""
