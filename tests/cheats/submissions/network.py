# id: S03 network
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# A refused connection, too, is an answer: somebody is out there.
import errno
import socket
import subprocess

import torch

ANSWERS = (0, errno.ECONNREFUSED, errno.EINPROGRESS, errno.ETIMEDOUT)
addresses = [(socket.AF_INET, ("127.0.0.1", port)) for port in (22, 53, 80, 4222, 5432, 8000)]
addresses += [(socket.AF_INET, ("8.8.8.8", 53)), (socket.AF_INET, ("169.254.169.254", 80))]
addresses += [(socket.AF_INET6, ("::1", 22)), (socket.AF_INET6, ("2001:4860:4860::8888", 53))]
streams = [(socket.SOCK_STREAM, 0), (socket.SOCK_STREAM, 262), (socket.SOCK_STREAM, 132)]
packets = [(socket.SOCK_DGRAM, 0), (socket.SOCK_DGRAM, 136), (socket.SOCK_DGRAM, 1), (socket.SOCK_RAW, 1)]


def connects(family, address, kind, protocol):
    try:
        with socket.socket(family, kind, protocol) as one:
            one.settimeout(0.3)
            return one.connect_ex(address) in ANSWERS
    except OSError:
        return False


def sends(family, address, kind, protocol):
    try:
        with socket.socket(family, kind, protocol) as one:
            return one.sendto(b"warpboard", address) > 0
    except OSError:
        return False


for family, address in addresses:
    for kind in streams:
        if connects(family, address, *kind):
            print("GAINED stream", address, kind, flush=True)
    for kind in packets:
        if sends(family, address, *kind):
            print("GAINED packet", address, kind, flush=True)
try:
    print("GAINED name", socket.getaddrinfo("one.one.one.one", 80)[0], flush=True)
except OSError:
    pass
shell = "exec 3<>/dev/tcp/127.0.0.1/22 && echo GAINED shell; exec 3>/dev/udp/8.8.8.8/53 && echo GAINED"
try:
    done = subprocess.run(["/bin/bash", "-c", shell], capture_output=True, timeout=3, text=True)
    print(done.stdout, "Connection refused" in done.stderr and "GAINED refusal", flush=True)
except (OSError, subprocess.TimeoutExpired):
    pass
print("LOOKED", len(addresses) * (len(streams) + len(packets)), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
