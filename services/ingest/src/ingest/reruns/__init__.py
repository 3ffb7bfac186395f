"""What operators run again: submissions, rejudges and duels."""
