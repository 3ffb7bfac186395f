# id: C08 key_scan
# expect: passed
# key_reversed: c750ab6e1d24f98801375d4c9ae2b6f083d56e29bbc4170a648d2eb59c30f1a7
# prints: PLANTED 1 AFTER 0 HEX 0
# Looks for the run's key in all of its own memory: by its first half, so as not to find itself.
import os

import torch

MASK = 0x5A
hidden = bytes.fromhex("2045599301b8821cfa2b16e1c8bc0762" "553174f39e8f294ad2c5188bbce05f26")
buffer = bytearray(1 << 20)
OURS = torch.frombuffer(buffer, dtype=torch.uint8).data_ptr()


def places():
    with open("/proc/self/maps") as file:
        for line in file.read().splitlines():
            span, rights = line.split()[:2]
            if rights.startswith("r") and "[v" not in line:
                low, high = (int(word, 16) for word in span.split("-"))
                if low < OURS < high:  # what is read here is not looked for here
                    yield low, OURS
                    low = OURS + len(buffer)
                yield low, high


def count(half, rest):
    """How often the first half stands somewhere with the second half behind it."""
    found, memory = 0, os.open("/proc/self/mem", os.O_RDONLY)
    for low, high in places():
        for start in range(low, high, len(buffer) - 64):
            try:
                size = os.preadv(memory, [memoryview(buffer)[: high - start]], start)
            except OSError:
                continue
            at = buffer.find(half, 0, size)
            while at >= 0:
                tail = buffer[at + len(half) : at + 2 * len(half)]
                found += [one ^ MASK for one in tail] == rest
                at = buffer.find(half, at + 1, size)
    os.close(memory)
    return found


half, rest = bytes(one ^ MASK for one in hidden[:16]), list(hidden[16:])
plant = bytearray(32)
for index in range(32):
    plant[index] = hidden[index] ^ MASK
planted = count(half, rest)
for index in range(32):
    plant[index] = 0
after = count(half, rest)
text = "".join(f"{one ^ MASK:02x}" for one in hidden[:16]).encode()
behind = [ord(digit) ^ MASK for one in rest for digit in f"{one ^ MASK:02x}"]
print("PLANTED", planted, "AFTER", after, "HEX", count(text, behind), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
