"""Experiments on a GPU: whether what the harness supposes of one is true."""
