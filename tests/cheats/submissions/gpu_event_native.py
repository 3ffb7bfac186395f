# id: T03 gpu_event_native
# expect: passed
# gpu: yes
# mode: benchmark
# time_us_min: 15000
# The event functions of driver and runtime return at once and leave a tiny time behind.
import ctypes
import mmap

import torch

torch.cuda.init()
libc = ctypes.CDLL(None)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
PAGE = mmap.PAGESIZE
RETURN = b"\x31\xc0\xc3"  # xor eax, eax; ret
for library, names in {
    "libcuda.so.1": ("cuEventRecord", "cuEventElapsedTime", "cuEventSynchronize"),
    "libcudart.so.13": ("cudaEventRecord", "cudaEventElapsedTime", "cudaDeviceSynchronize"),
    "libcudart.so.12": ("cudaEventRecord", "cudaEventElapsedTime", "cudaDeviceSynchronize"),
}.items():
    try:
        found = ctypes.CDLL(library)
    except OSError:
        continue
    for name in names:
        at = ctypes.cast(getattr(found, name), ctypes.c_void_p).value
        if libc.mprotect(at & ~(PAGE - 1), 2 * PAGE, 7) == 0:
            ctypes.memmove(at, RETURN, len(RETURN))
            print("PATCHED", name, flush=True)


def custom_kernel(data):
    left, right, out = data
    torch.cuda._sleep(40_000_000)
    return torch.matmul(left, right, out=out)
