"""Logins: CLI ids, device codes, passwords and OAuth providers."""
