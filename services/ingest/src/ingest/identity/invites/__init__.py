"""Invites: one code lets one participant join closed leaderboards."""
