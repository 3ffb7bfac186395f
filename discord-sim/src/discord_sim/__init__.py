"""A local Discord: HTTP API, gateway and attachments, with simulated users and validation."""
