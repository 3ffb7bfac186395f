"""What every service agrees on: words, events, the log and its neighbours."""
