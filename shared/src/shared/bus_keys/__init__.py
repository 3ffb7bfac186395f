"""Who may log in to the bus, and what they may do there: keys, permissions, certificates."""
