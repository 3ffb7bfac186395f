"""What to say on Discord, as plain data."""
