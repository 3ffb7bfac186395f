"""The version of the platform: one for all parts, which their packages read from this file."""

VERSION = "0.3.0"
