"""Discord: commands in, results out; it holds no truth."""
