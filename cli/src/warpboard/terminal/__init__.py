"""The terminal: commands, and the output of tables and progress."""
