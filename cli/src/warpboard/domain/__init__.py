"""Pure functions over the platform's answers."""
