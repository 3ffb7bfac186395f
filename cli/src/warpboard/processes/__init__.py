"""The platform on one machine, as child processes: start, stop and status."""
