"""Hosts with a systemd, a file system and a network of their own, in namespaces of this machine."""
