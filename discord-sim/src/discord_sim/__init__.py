"""A local Discord: its HTTP API, gateway and attachments, people to act, judges to complain."""
