"""Notifications: public announcements and direct messages, each sent once."""
