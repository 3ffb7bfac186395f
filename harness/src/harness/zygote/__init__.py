"""The process that imports once and forks every box: single-threaded, without secrets."""
