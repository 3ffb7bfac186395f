# id: C08 gpu_marks_overwritten
# expect: passed
# gpu: yes
# key_reversed: 6e027d8ee962f1e1bf09068ab19999b8644cb27234f9cd65ea18ea49f445abb1
# prints: PLANTED 1 AFTER 0
# A checker in this process would have its marks in memory that this process can write. The run's key
# stands for them: whatever begins like it is overwritten. It is masked here, so that this file does
# not find itself.
import os

import torch

MASK, BYTES_MAX = 0xC3, 512 * 1024**2
hidden = bytes.fromhex("d879978c576d426d951f5c80e4e80785485a5ad86ba35338dddce55d2b14e325")
buffer = bytearray(1 << 20)
OURS = torch.frombuffer(buffer, dtype=torch.uint8).data_ptr()


def areas():
    with open("/proc/self/maps") as file:
        for line in file.read().splitlines():
            span, rights = line.split()[:2]
            low, high = (int(word, 16) for word in span.split("-"))
            # What is read here is not looked for here, and devices are left alone.
            if rights.startswith("rw") and "/dev/" not in line and high - low <= BYTES_MAX:
                if low <= OURS < high:
                    yield low, OURS
                    low = OURS + len(buffer)
                yield low, high


def overwrite(half, rest):
    """Overwrite the mark wherever it is; return how often that was."""
    count, memory = 0, os.open("/proc/self/mem", os.O_RDWR)
    for low, high in areas():
        for start in range(low, high, len(buffer) - 64):
            try:
                size = os.preadv(memory, [memoryview(buffer)[: high - start]], start)
            except OSError:
                continue
            at = buffer.find(half, 0, size)
            while at >= 0:
                if list(buffer[at + len(half) : at + 2 * len(half)]) == rest:
                    os.pwrite(memory, bytes(2 * len(half)), start + at)
                    count += 1
                at = buffer.find(half, at + 1, size)
    os.close(memory)
    return count


half, rest = bytes(one ^ MASK for one in hidden[:16]), [one ^ MASK for one in hidden[16:]]
# Apart from the halves, of which neither is the key.
plant = bytearray(32)
for index in range(32):
    plant[index] = hidden[index] ^ MASK
print("PLANTED", overwrite(half, rest), "AFTER", overwrite(half, rest), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
