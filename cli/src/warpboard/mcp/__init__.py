"""The Model Context Protocol server: the platform as tools of a program that writes kernels."""
