# id: S40 host_addresses
# expect: passed
# level: medium
# prints: LOOKED
# never_prints: GAINED
# A socket belongs to a network namespace, whoever holds it: asked for its interfaces, it tells.
import ctypes
import errno
import fcntl
import os
import socket
import struct

import torch

SIOCGIFNAME, SIOCGIFCONF, SIOCGIFHWADDR, SIOCGSKNS = 0x8910, 0x8912, 0x8927, 0x894C
INTERFACES_MAX, ENTRY_BYTES = 64, 40


def asked(one, command, argument):
    try:
        return fcntl.ioctl(one, command, argument)
    except OSError as error:
        return b"" if error.errno != errno.EFAULT else b"?"


def addresses(one):
    room = ctypes.create_string_buffer(INTERFACES_MAX * ENTRY_BYTES)
    wish = struct.pack("ixxxxP", len(room), ctypes.addressof(room))
    size = struct.unpack("ixxxxP", asked(one, SIOCGIFCONF, wish) or bytes(16))[0]
    entries = [room.raw[at : at + ENTRY_BYTES] for at in range(0, size, ENTRY_BYTES)]
    return [socket.inet_ntoa(entry[20:24]) for entry in entries]


def names(one):
    found = [asked(one, SIOCGIFNAME, struct.pack("16si20x", b"", index)) for index in range(INTERFACES_MAX)]
    return [name[:16].rstrip(b"\0") for name in found if name]


sockets = 0
for number in os.listdir("/proc/self/fd"):
    try:
        one = socket.socket(fileno=os.dup(int(number)))
    except OSError:
        continue
    sockets += 1
    if found := addresses(one):
        print("GAINED addresses", found, flush=True)
    for name in names(one):
        # A new namespace may have interfaces besides lo, but none with an address.
        hardware = asked(one, SIOCGIFHWADDR, struct.pack("16s24x", name))[18:24]
        if any(hardware):
            print("GAINED interface", name, hardware.hex(), flush=True)
    try:
        print("GAINED namespace", fcntl.ioctl(one, SIOCGSKNS), flush=True)
    except OSError:
        pass
print("LOOKED" if sockets else "NO SOCKET", sockets, flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
