"""All we say to NATS: the adapters of the log, the blobs and the bus."""
