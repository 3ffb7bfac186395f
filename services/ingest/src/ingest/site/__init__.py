"""The web site: the pages of leaderboards, problems and submissions, and what all pages share."""
