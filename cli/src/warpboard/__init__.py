"""The command line: the platform on one machine, and a client of its HTTP API."""
