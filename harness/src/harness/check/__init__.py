"""Judging a call: the author's code, the inputs, the gated call, and the verdict on its answer."""
