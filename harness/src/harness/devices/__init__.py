"""What can be timed, and with which clock."""
