# id: T02 stats_patched
# expect: wrong_answer
import statistics
import sys

import torch


def patched(*args, **options):
    return 1e-9


statistics.mean = statistics.median = statistics.fmean = statistics.stdev = patched
for name in ("time.estimators", "check.judging", "report.verdict", "check.calls", "supervisor.run"):
    module = type(sys)(f"harness.{name}")
    module.__getattr__ = lambda word: patched
    sys.modules[module.__name__] = module


def custom_kernel(data):
    return data[2].zero_()
