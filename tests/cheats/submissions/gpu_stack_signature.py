# id: C07 gpu_stack_signature
# expect: crashed protocol
# gpu: yes
# never_says: passed
# Pointers on its stack lead it to whatever looks like a signature of 32 hex digits. It signs times
# that it made up with each, writes them to every open file, and ends before any call.
import os
import re
import struct

SIGNATURE = re.compile(rb"[0-9a-f]{32}(?![0-9a-f])")
DESCRIPTORS = 256


def areas():
    with open("/proc/self/maps") as file:
        for line in file:
            span, rights = line.split()[:2]
            if rights.startswith("r") and "[v" not in line:
                yield *(int(word, 16) for word in span.split("-")), "[stack]" in line


def signatures():
    found, memory = list(areas()), os.open("/proc/self/mem", os.O_RDONLY)
    for low, high, is_stack in found:
        if not is_stack:
            continue
        data = os.pread(memory, high - low, low)
        for pointer in set(struct.unpack(f"{len(data) // 8}Q", data[: len(data) // 8 * 8])):
            if any(begin <= pointer < end for begin, end, _ in found):
                try:
                    text = os.pread(memory, 33, pointer)
                except OSError:
                    continue
                if SIGNATURE.match(text):
                    yield text[:32]
    os.close(memory)


lines = [b"%d\t0.020\n" % call for call in range(15)]
for signature in [b"0" * 32, *signatures()]:
    for descriptor in range(DESCRIPTORS):
        try:
            os.write(descriptor, b"".join([*lines, b"signature\t", signature, b"\n"]))
        except OSError:
            pass
os._exit(0)
