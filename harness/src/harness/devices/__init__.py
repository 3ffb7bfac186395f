"""What can be timed, and by which clock."""
