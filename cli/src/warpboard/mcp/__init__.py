"""The Model Context Protocol server: the platform as tools for programs that write kernels."""
