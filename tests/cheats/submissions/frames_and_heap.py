# id: C01 frames_and_heap
# expect: passed
# prints: FOUND [] [] 0
# never_prints: GAINED
# Frames, modules, the heap and the stack of callers, at import and in a call.
import gc
import sys

import torch

words = ("key", "seed", "seeds", "problem", "reference", "snapshot", "poison", "expected", "author")


def names():
    frame = sys._getframe(2)
    while frame:
        for name, value in list(frame.f_locals.items()):
            inner = getattr(value, "__dict__", {}) if "harness" in type(value).__module__ else {}
            yield from (one.strip("_") for one in (name, *inner))
        frame = frame.f_back


def look():
    found = sorted({name for name in names() if name in words})
    modules = [name for name in sys.modules if name.startswith("harness.")]
    modules = [name for name in modules if not name.startswith(("harness.worker", "harness.sandbox", "harness.zygote"))]
    modules += [name for name in sys.modules if name in ("reference", "solution")]
    ours = {part.data_ptr() for part in kept}
    tensors = [one for one in gc.get_objects() if type(one) is torch.Tensor and one.numel() > 256]
    spare = [one for one in tensors if one.untyped_storage().data_ptr() not in ours]
    return found, modules, len(spare)


kept = []
print("FOUND", *look(), flush=True)


def custom_kernel(data):
    left, right, out = data
    if not kept:
        kept.extend((left, right, out))
        kept[:] = [part.untyped_storage() for part in kept]
        found = look()
        if found != ([], [], 0):
            print("GAINED", *found, flush=True)
    return torch.matmul(left, right, out=out)
