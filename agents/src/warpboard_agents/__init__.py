"""Warpboard as the evaluator of programs that write kernels, in the words of their frameworks."""
