"""Webhooks: notify participants' own addresses of events, safely."""
