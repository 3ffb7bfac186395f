"""Everything by which a person gets a token: CLI ids, device codes, passwords, other providers."""
