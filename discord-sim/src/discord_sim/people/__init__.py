"""People at their Discord clients."""
