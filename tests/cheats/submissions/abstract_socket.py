# id: S05 abstract_socket
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# The test's own bystanders listen on an abstract name and in a folder that everybody may pass; so
# may agents and buses of the host.
import glob
import os
import socket
import stat

import torch

names = {"\0warpboard-bystander"}
try:
    for line in open("/proc/net/unix").read().splitlines()[1:]:
        if len(words := line.split()) > 7:
            names.add(words[7].replace("@", "\0", 1) if words[7][0] == "@" else words[7])
except OSError:
    pass
for pattern in ("/run/*", "/run/*/*", "/run/user/*/*", "/tmp/*", "/tmp/.X11-unix/*", "/dev/*", "*"):
    names |= {path for path in glob.glob(pattern) if stat.S_ISSOCK(os.lstat(path).st_mode)}
for name in sorted(names):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            with socket.socket(socket.AF_UNIX, kind) as one:
                one.settimeout(0.3)
                one.connect(name)
                print("GAINED", repr(name), int(kind), flush=True)
        except OSError:
            pass
print("LOOKED", len(names), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
