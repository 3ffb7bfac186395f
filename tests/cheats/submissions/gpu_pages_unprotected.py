# id: C08 gpu_pages_unprotected
# expect: passed
# gpu: yes
# key_reversed: bd06a889ad8b8437a8b342f42f9638a330665370f8551a9dcc1c28a6f68926b4
# prints: PLANTED 1 AFTER 0
# A checker in this process might protect its pages against every access between two calls. All pages
# without rights are made readable and searched for the run's key, which is masked here. One of them
# holds it, to show that the search works.
import ctypes
import mmap
import os

import torch

MASK, BYTES_MAX = 0xC3, 512 * 1024**2
NONE, READABLE, READ_WRITE = 0, 1, 3
hidden = bytes.fromhex("88a15baca941020f1a62964cc4f6a5c0f940aa318ce7f849b08b7b195b49a318")
libc = ctypes.CDLL(None)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
buffer = bytearray(1 << 20)


def areas():
    with open("/proc/self/maps") as file:
        for line in file.read().splitlines():
            span, rights = line.split()[:2]
            low, high = (int(word, 16) for word in span.split("-"))
            if rights.startswith("---") and "/" not in line and high - low <= BYTES_MAX:
                yield low, high


def search(half, rest):
    """Return how often the key is in pages that nobody may read."""
    count, memory = 0, os.open("/proc/self/mem", os.O_RDONLY)
    for low, high in areas():
        if libc.mprotect(low, high - low, READABLE):
            continue
        for start in range(low, high, len(buffer) - 64):
            try:
                size = os.preadv(memory, [memoryview(buffer)[: high - start]], start)
            except OSError:
                continue
            at = buffer.find(half, 0, size)
            while at >= 0:
                count += list(buffer[at + len(half) : at + 2 * len(half)]) == rest
                at = buffer.find(half, at + 1, size)
        libc.mprotect(low, high - low, NONE)
    os.close(memory)
    return count


half, rest = bytes(one ^ MASK for one in hidden[:16]), [one ^ MASK for one in hidden[16:]]
page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
for index in range(32):
    page[index] = hidden[index] ^ MASK
libc.mprotect(address, mmap.PAGESIZE, NONE)
planted = search(half, rest)
libc.mprotect(address, mmap.PAGESIZE, READ_WRITE)
page.seek(0)
page.write(bytes(32))
libc.mprotect(address, mmap.PAGESIZE, NONE)
print("PLANTED", planted, "AFTER", search(half, rest), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
