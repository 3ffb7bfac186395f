# id: S12 disk_fill
# expect: crashed import_error out_of_memory
# level: medium
# never_prints: GAINED
# Files, none too large, wherever it may write; stops by itself at 2 GiB.
import os
import tempfile

places = [tempfile.gettempdir(), os.getcwd(), os.path.expanduser("~"), "/dev/shm", "/tmp", "/var/tmp"]
block, written, refusal = b"x" * (16 << 20), 0, OSError()
for place in places:
    try:
        for number in range(128):
            with open(os.path.join(place, f"warpboard-fill-{number}"), "wb") as file:
                file.write(block)
            written += len(block)
    except OSError as error:
        refusal = error
    if written > 2 << 30:
        print("GAINED", written >> 20, "MiB", flush=True)
        break
print("WRITTEN", written >> 20, "MiB", flush=True)
raise refusal


def custom_kernel(data):
    return data[2]
