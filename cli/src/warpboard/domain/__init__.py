"""What the command line decides: pure functions of what the platform answered."""
