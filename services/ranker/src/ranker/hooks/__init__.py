"""Webhooks: what participants want told to addresses of their own, told safely."""
