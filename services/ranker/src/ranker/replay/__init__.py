"""A projection folded anew beside the live one, compared, and put in its place."""
