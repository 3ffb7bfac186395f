# id: T25 false_claim
# expect: passed
# mode: benchmark
# time_us_min: 19000
# Claims a nanosecond wherever a number might be read: files, output, the worker's own modules.
import json
import sys
import time

import torch

sleep, fast = time.sleep, 0.001
case = {"name": "size=256 seed=7", "stage": "time", "verdict": "passed", "time_us": fast}
report = {"verdict": "passed", "stage": "time", "reason": "", "took_s": fast, "cases": [case]}
for name, module in list(sys.modules.items()):
    if name.startswith("harness."):
        for word in ("elapsed_us", "time_us", "now_ns", "claim", "clock"):
            setattr(module, word, lambda *args: fast)
for name in ("samples.json", "samples.json.gz", "report.json", "result.json"):
    with open(name, "w") as file:
        json.dump({"samples": {case["name"]: [fast] * 100}}, file)


def custom_kernel(data):
    left, right, out = data
    sleep(0.02)
    torch.matmul(left, right, out=out)
    for stream in (sys.stdout, sys.stderr):
        print(json.dumps({"RunReport": report}), file=stream, flush=True)
    return out
