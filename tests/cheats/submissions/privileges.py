# id: S24 privileges
# expect: passed
# level: weak
# prints: LOOKED
# never_prints: GAINED
# Whatever makes a process more than a process.
import ctypes
import glob
import os
import platform
import resource
import subprocess

import torch

libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
NUMBERS = {  # x86-64, aarch64
    "ptrace": (101, 117),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "open_by_handle_at": (304, 265),
    "memfd_secret": (447, 447),
    "fanotify_init": (300, 262),
    "fsopen": (430, 430),
    "open_tree": (428, 428),
    "mount": (165, 40),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "init_module": (175, 105),
    "kexec_load": (246, 104),
    "swapon": (167, 224),
    "acct": (163, 89),
    "sethostname": (170, 161),
    "syslog": (103, 116),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "unshare": (272, 97),
    "clone3": (435, 435),
}
path, room = ctypes.create_string_buffer(b"/scratch", 16), ctypes.create_string_buffer(256)
attributes = (ctypes.c_uint64 * 11)(0x10000000)  # of clone3: CLONE_NEWUSER
ARGUMENTS = {
    "ptrace": (0, 0, 0, 0),
    "bpf": (0, room, 72),
    "userfaultfd": (1,),
    "io_uring_setup": (4, room),
    "perf_event_open": (room, 0, -1, -1, 0),
    "keyctl": (0, ctypes.c_int(-3), 1),
    "add_key": (b"user", b"warpboard", b"x", 1, ctypes.c_int(-2)),
    "request_key": (b"user", b"warpboard", 0, ctypes.c_int(-2)),
    "memfd_secret": (0,),
    "fanotify_init": (0, 0),
    "fsopen": (b"tmpfs", 0),
    "open_tree": (-100, b"/", 1),
    "mount": (b"none", path, b"tmpfs", 0, 0),
    "chroot": (path,),
    "sethostname": (b"gained", 6),
    "syslog": (3, room, 256),
    "clone3": (attributes, 88),
    "adjtimex": None,
}


def called(name):
    """Whether the call did anything but refuse; tried in a child, whom it may well harm."""
    arguments = ARGUMENTS.get(name, (0x10000000, 0, 0, 0, 0))
    if arguments is None:
        return False
    pid = os.fork()
    if pid == 0:
        result = libc.syscall(ctypes.c_long(NUMBERS[name][0 if X86 else 1]), *arguments)
        os._exit(77 if result >= 0 else 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 77


def check(what, is_gained):
    if is_gained:
        print("GAINED", what, flush=True)


namespaced = open("/proc/self/uid_map").read().split() != ["0", "0", "4294967295"]
if os.getuid() == 0 and not namespaced:
    print("GAINED root", flush=True)  # and goes no further: it might
    os._exit(0)
for name in NUMBERS:
    check(name, called(name))
for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
    pid = os.fork()
    if pid == 0:
        os._exit(77 if libc.unshare(flag) == 0 else 0)
    check(f"unshare {flag:#x}", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 77)
    clone = 56 if X86 else 220
    pid = libc.syscall(clone, flag | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    check(f"clone {flag:#x}", pid > 0)
sets = (ctypes.c_uint32 * 6)()
libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), sets)
check(f"capabilities {list(sets)}", any(sets))
check("bounding set", any(libc.prctl(23, number, 0, 0, 0) == 1 for number in range(41)))
check("ambient set", any(libc.prctl(47, 1, number, 0, 0) == 1 for number in range(41)))
check("new privileges", libc.prctl(39, 0, 0, 0, 0) != 1)
check("no filter", libc.prctl(21, 0, 0, 0, 0) != 2)
check("groups", os.getgroups() not in ([], [os.getgid()], [65534]) and os.getuid() != 0)
# Setuid programs, where there are any: none may change who runs them, or be on a mount that lets it.
for program in glob.glob("/usr/bin/*") + glob.glob("/usr/sbin/*"):
    try:
        mode = os.stat(program).st_mode
    except OSError:
        continue
    if mode & 0o6000 and os.path.basename(program) in ("su", "mount", "newgrp", "sudo", "chsh"):
        try:
            done = subprocess.run([program, "-c", "id"], capture_output=True, timeout=5, input=b"")
            check(program, b"uid=0(root)" in done.stdout and os.getuid() != 0)
        except (OSError, subprocess.TimeoutExpired):
            pass


def write(path, text):
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


others = [one for one in range(3) if one != os.getuid()]
for name, act in {
    "setuid": lambda: os.setuid(others[0]),
    "setgroups": lambda: os.setgroups([0, 42]),
    "real time": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
    "safe from hunger": lambda: write("/proc/self/oom_score_adj", b"-1000"),
    "more files": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20)),
    "a core": lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)),
    "user map": lambda: write("/proc/self/uid_map", b"0 0 1"),
    "a device": lambda: os.mknod("zero", 0o020666, os.makedev(1, 5)),
    "a namespace": lambda: os.close(os.open("/proc/1/ns/mnt", os.O_RDONLY)),
    "a cgroup": lambda: os.mkdir("/sys/fs/cgroup/warpboard-gained"),
}.items():
    try:
        act()
    except (OSError, ValueError):
        continue
    print("GAINED", name, flush=True)
print("LOOKED", len(NUMBERS), flush=True)


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
