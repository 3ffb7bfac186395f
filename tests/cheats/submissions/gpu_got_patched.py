# id: T03 gpu_got_patched
# expect: passed
# gpu: yes
# mode: benchmark
# time_us_min: 15000
# prints: LOOKED
# A library calls functions of others through a table of addresses. In the tables of all libraries
# of torch and CUDA, those that read events or clocks are replaced by one that does nothing.
import ctypes
import mmap
import struct
import time

import torch

NAMES = (b"cudaEventElapsedTime", b"cuEventElapsedTime", b"cudaEventRecord", b"clock_gettime")
SECTION, RELOCATION = struct.Struct("IIQQQQIIQQ"), struct.Struct("QQq")
SYMBOL_BYTES, RELOCATIONS = 24, 4
PAGE, ALL_RIGHTS = mmap.PAGESIZE, 7
NOTHING = b"\x31\xc0\xc3"  # xor eax, eax; ret
libc = ctypes.CDLL(None)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def libraries():
    """Return where each library begins, by its path."""
    found = {}
    with open("/proc/self/maps") as file:
        for line in file:
            path = line[line.index("/") :].strip() if "/" in line else ""
            if ".so" in path and ("torch" in path or "cuda" in path):
                found.setdefault(path, int(line.partition("-")[0], 16))
    return found


def entries(path):
    """Yield where a library's table has the functions, counted from its beginning."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as elf:
        (table,) = struct.unpack_from("Q", elf, 40)
        size, count = struct.unpack_from("HH", elf, 58)
        sections = [SECTION.unpack_from(elf, table + index * size) for index in range(count)]
        for section in sections:
            # Those of a table of functions are linked to the symbols, and name the table.
            if section[1] != RELOCATIONS or not section[7]:
                continue
            symbols = sections[section[6]]
            texts = sections[symbols[6]]
            for at in range(section[4], section[4] + section[5], RELOCATION.size):
                place, info, _ = RELOCATION.unpack_from(elf, at)
                (text,) = struct.unpack_from("I", elf, symbols[4] + (info >> 32) * SYMBOL_BYTES)
                begin = texts[4] + text
                if elf[begin : elf.find(b"\0", begin)].partition(b"@")[0] in NAMES:
                    yield place


stub = mmap.mmap(-1, PAGE, prot=ALL_RIGHTS)
stub.write(NOTHING)
address = ctypes.addressof(ctypes.c_char.from_buffer(stub))
patched = 0
for path, base in libraries().items():
    for place in entries(path):
        at = base + place
        if libc.mprotect(at & ~(PAGE - 1), PAGE, 3) == 0:
            ctypes.c_uint64.from_address(at).value = address
            patched += 1
print("LOOKED", patched, flush=True)


def custom_kernel(data):
    left, right, out = data
    if left.is_cuda:
        torch.cuda._sleep(40_000_000)
    else:
        time.sleep(0.02)
    return torch.matmul(left, right, out=out)
