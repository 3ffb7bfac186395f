"""Authenticates requests: their credentials, and the callers behind them."""
