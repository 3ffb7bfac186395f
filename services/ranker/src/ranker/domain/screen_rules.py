"""The rules of the advisory screen: what in a source a moderator should look at, and why.

A rule is matched by `paths`, dotted names of libraries with all that is below them; by `names`,
attributes and built-in functions, with spaces between them; by `literals`, a pattern for strings of
Python; and by `native`, a pattern for C++ and CUDA, in a file of its own or in a string of Python.
What needs more than a name is a check in `source_screen`, which names the rule.
`docs/advisory-screen.md` is made from this table.
"""

import re
from dataclasses import dataclass

from shared.api.labels import Severity

# Raise it with every change of a rule or a check: then all sources are screened again.
SCREEN_VERSION = 1


@dataclass(frozen=True)
class Rule:
    """What a rule looks for; `title` completes "The source …", and `why` is for a moderator."""

    id: str
    severity: Severity
    title: str
    why: str
    paths: tuple[str, ...] = ()
    names: str = ""
    literals: re.Pattern[str] | None = None
    native: re.Pattern[str] | None = None


# Clocks that a program can read.
CLOCKS = (
    *("time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic"),
    *("time.monotonic_ns", "time.process_time", "time.process_time_ns", "time.thread_time"),
    *("time.thread_time_ns", "time.clock_gettime", "time.clock_gettime_ns", "timeit"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "os.times", "os.getloadavg"),
)
# What measures or waits, in whose place a submission could put something else.
TIMERS = (
    *("time", "timeit", "torch.cuda.Event", "torch.Event", "torch.cuda.synchronize"),
    *("torch.cuda.Stream", "torch.cuda.current_stream", "torch.utils.benchmark", "cupy.cuda.Event"),
    *("triton.testing", "torch.profiler", "torch.autograd.profiler"),
)
# Settings that libraries offer, which are assigned like a patch.
SETTINGS = (
    *("torch.backends", "torch._dynamo.config", "torch._inductor.config", "numba.config"),
    *("torch._functorch.config", "torch.compiler.config", "triton.knobs", "os.environ"),
    *("jax.config", "numpy.random", "torch.distributed.config"),
)

RULES = (
    Rule(
        "timer_patched",
        "high",
        "puts something in the place of a clock, an event or a synchronisation",
        "The time is measured by another process, so it changes nothing here. It is the commonest "
        "way to a wrong time elsewhere, and has no honest use.",
        native=re.compile(
            r"\b(?:clock_gettime|gettimeofday|cudaEventElapsedTime|cudaEventRecord"
            r"|cudaEventSynchronize|cudaDeviceSynchronize|cudaStreamSynchronize"
            r"|cuEventElapsedTime|cuEventRecord)\s*\([^;{}()]{0,200}\)\s*\{"
        ),
        literals=re.compile(r"\bcu(?:da)?Event(?:Record|ElapsedTime|Synchronize)\b(?!\s*\()"),
    ),
    Rule(
        "library_patched",
        "high",
        "replaces a function or a module of a library",
        "A patched comparison, allocation or dispatch makes a wrong answer look right wherever "
        "check and submission share a process. They share none here.",
        paths=("unittest.mock", "torch.utils._python_dispatch", "torch.overrides"),
        native=re.compile(r"\bTORCH_LIBRARY_IMPL\s*\(\s*aten\b|\bPyObject_SetAttr(?:String)?\s*\("),
    ),
    Rule(
        "grader_sought",
        "high",
        "looks for the program that judges it: its frames, objects, modules or reference",
        "Callers' frames and the objects of the process hold inputs, keys and answers in a harness "
        "that shares a process with the submission.",
        paths=(
            *("sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile"),
            *("sys.modules", "sys.meta_path", "gc", "reference", "eval", "harness", "__main__"),
            *("inspect.stack", "inspect.currentframe", "inspect.getouterframes", "inspect.trace"),
            *(
                "inspect.getmembers",
                "traceback.walk_stack",
                "traceback.extract_stack",
                "tracemalloc",
            ),
            *(
                "sys.addaudithook",
                "threading.settrace",
                "threading.setprofile",
                "utils.match_reference",
            ),
            *("utils.verbose_allclose", "task.generate_input"),
            *("task.ref_kernel", "task.check_implementation"),
        ),
        names=(
            "f_back f_locals f_globals tb_frame gi_frame cr_frame ref_kernel check_implementation "
            "generate_input match_reference verbose_allclose __subclasses__"
        ),
        literals=re.compile(
            r"\bharness\.\w|\bref_kernel\b|\bcheck_implementation\b|\breference(?:_\w+)?\.(?:py|cu|cpp)\b"
            r"|\bmanifest\.json\b|\byardstick\b"
        ),
        native=re.compile(r"\bPyEval_Get\w*\s*\(|\bPyThreadState_\w+\s*\(|\bPyImport_\w+\s*\("),
    ),
    Rule(
        "memory_searched",
        "high",
        "reads or writes memory that it was not given",
        "Through addresses, /proc or the driver a program reaches the memory of others, or what is "
        "left from earlier calls.",
        paths=("ctypes.string_at", "ctypes.wstring_at", "ctypes.memset"),
        names=(
            "from_address mprotect ptrace process_vm_readv process_vm_writev preadv pwritev "
            "cuMemGetAddressRange cuMemGetAddressRange_v2 cuPointerGetAttribute mincore"
        ),
        literals=re.compile(
            r"/proc/|/sys/(?:kernel|fs|devices)|/dev/(?:mem|kmsg|nvidia|shm|sd|vd)"
        ),
        native=re.compile(
            r"\b(?:mprotect|ptrace|process_vm_(?:readv|writev)|cuMemGetAddressRange\w*"
            r"|cuPointerGetAttribute\w*|cudaPointerGetAttributes|dl_iterate_phdr)\s*\(|\"/proc/"
            r"|\*\s*\(\s*(?:volatile\s+)?\w+\s*\*\s*\)\s*(?:0x[0-9a-fA-F]+|\d+)\b"
        ),
    ),
    Rule(
        "storage_replaced",
        "high",
        "reaches below a tensor to its storage",
        "A storage is larger than the tensor that shows it, so its other parts can be read and "
        "written, and a tensor can be given another one after it was returned.",
        names=("set_ untyped_storage _typed_storage storage resize_ _storage share_memory_"),
        native=re.compile(r"\.(?:storage|unsafeGetTensorImpl|set_)\s*\("),
    ),
    Rule(
        "answer_kept",
        "high",
        "finds something by the address of a tensor, or answers with what an earlier call kept",
        "Inputs may come at the same address with other values. A result that is found by address "
        "is then the answer to earlier inputs.",
        native=re.compile(
            r"\b(?:unordered_)?map\s*<\s*(?:const\s+)?(?:void|float|double|half|__half|char|int|at::\w+)"
            r"\s*(?:const\s*)?\*|\bmap\s*<\s*u?intptr_t\b"
        ),
    ),
    Rule(
        "lazy_answer",
        "high",
        "defines an object that computes when somebody looks at it",
        "Work is then done by the check, after the clock has stopped.",
        paths=("torch.Tensor._make_subclass", "torch.Tensor._make_wrapper_subclass"),
        names=(
            "__torch_function__ __torch_dispatch__ as_subclass _make_subclass "
            "_make_wrapper_subclass"
        ),
    ),
    Rule(
        "code_hidden",
        "high",
        "runs code that its text does not show",
        "Decoded or composed code is read by nobody. An honest source can say what it does.",
        paths=(
            *("base64", "binascii", "codecs", "marshal", "pickle", "cloudpickle", "dill", "zlib"),
            *("lzma", "bz2", "gzip", "runpy", "importlib", "imp", "code", "zipimport", "pkgutil"),
            *("types.CodeType", "types.FunctionType", "builtins.exec", "builtins.eval"),
            *("builtins.compile", "builtins.__import__", "operator.attrgetter", "ast.parse"),
            "operator.methodcaller",
        ),
        names=("exec eval __import__ compile __builtins__ __code__ __globals__"),
        literals=re.compile(r"\A[A-Za-z0-9+/=_-]{160,}\Z|\A[0-9a-fA-F]{64,}\Z"),
        native=re.compile(r"\bdlm?open\s*\(|\bdlv?sym\s*\(|\bPyRun_\w+\s*\("),
    ),
    Rule(
        "process_started",
        "high",
        "starts another process, or ends or signals one",
        "Another process can work outside the measured time, and outlive the run.",
        paths=(
            *("subprocess", "multiprocessing", "pty", "os.fork", "os.forkpty", "os.system"),
            *("os.popen", "os.execv", "os.execve", "os.execvp", "os.execl", "os.posix_spawn"),
            *("os.posix_spawnp", "os.spawnv", "os.spawnl", "os.kill", "os.killpg", "os._exit"),
            *("os.abort", "os.setsid", "os.pidfd_open", "signal", "atexit", "faulthandler"),
            *("concurrent.futures.ProcessPoolExecutor", "torch.multiprocessing", "os.getppid"),
            *("os.sched_setaffinity", "os.nice", "os.setpriority", "resource"),
        ),
        native=re.compile(
            r"\b(?:v?fork|popen|system|posix_spawnp?|exec(?:l|v|ve|vp|lp|le)|kill|_exit|_Exit|prctl"
            r"|sched_setaffinity|atexit|std::exit)\s*\("
        ),
    ),
    Rule(
        "system_called",
        "high",
        "calls the operating system past its libraries",
        "No kernel needs a system call. They are the way out of a sandbox.",
        names=("syscall prctl mmap madvise munmap shmget shmat semget msgget ioctl fallocate"),
        paths=("fcntl", "os.memfd_create", "os.mknod", "os.pipe", "os.dup", "os.eventfd"),
        native=re.compile(
            r"\b(?:syscall|ioctl|shmget|shmat|memfd_create|io_uring_setup)\s*\("
            r"|\basm\b[^;]{0,80}\bsyscall\b"
        ),
    ),
    Rule(
        "network_used",
        "high",
        "opens a socket or a connection",
        "A run has no network. Sockets are also how a harness talks to the process that it judges.",
        paths=(
            *(
                "socket",
                "urllib",
                "requests",
                "http",
                "httpx",
                "aiohttp",
                "ftplib",
                "ssl",
                "smtplib",
            ),
            *("asyncio.open_connection", "socketserver", "select", "torch.distributed.TCPStore"),
            *("xmlrpc", "paramiko", "huggingface_hub", "torch.hub"),
        ),
        literals=re.compile(r"\bhttps?://\S{1,300}?\.(?:zip|gz|so|bin|py|pt)\b|/dev/tcp/"),
        native=re.compile(
            r"#\s*include\s*<(?:sys/socket|netinet/in|arpa/inet|netdb)\.h>|\bsocket\s*\("
        ),
    ),
    Rule(
        "sleep_called",
        "high",
        "sleeps, or waits for time to pass",
        "Waiting moves work or heat to where it is not measured, or hides a thread's work.",
        paths=("time.sleep", "torch.cuda._sleep", "asyncio.sleep", "os.sched_yield"),
        native=re.compile(
            r"\b(?:usleep|nanosleep|__nanosleep|sleep_for|sleep_until|sched_yield)\s*\(|\bsleep\s*\("
        ),
    ),
    Rule(
        "input_predicted",
        "medium",
        "makes or restores a random generator",
        "With a known seed, a submission computes inputs, and answers, before it is given them.",
        paths=(
            *(
                "torch.manual_seed",
                "torch.cuda.manual_seed",
                "torch.Generator",
                "torch.set_rng_state",
            ),
            *("torch.get_rng_state", "torch.initial_seed", "torch.seed", "numpy.random.seed"),
            *(
                "numpy.random.default_rng",
                "numpy.random.RandomState",
                "torch.random",
                "random.seed",
            ),
            *("random.setstate", "random.getstate", "random.Random"),
        ),
        names=("manual_seed setstate getstate set_state get_state initial_seed"),
    ),
    Rule(
        "behaviour_random",
        "medium",
        "does something else by chance",
        "What is wrong or slow only sometimes passes checks, and lets the best of many runs count.",
        paths=(
            *("random.random", "random.randrange", "random.randint", "random.choice", "os.urandom"),
            *("random.uniform", "random.getrandbits", "secrets", "uuid", "random.randbytes"),
            *("random.shuffle", "random.sample"),
        ),
        native=re.compile(r"\bstd::(?:random_device|mt19937\w*)\b|\bs?rand\s*\("),
    ),
    Rule(
        "stream_used",
        "medium",
        "works on a stream of its own",
        "Work on another stream may go on after the measured call has ended.",
        paths=(
            *("torch.cuda.Stream", "torch.Stream", "torch.cuda.stream", "torch.cuda.set_stream"),
            *("torch.cuda.ExternalStream", "cupy.cuda.Stream", "torch.xpu.Stream"),
            *("torch.cuda.set_device", "numba.cuda.stream"),
        ),
        names=("cuStreamWaitValue32 cuStreamWaitValue32_v2 cuStreamCreate cuLaunchHostFunc"),
        native=re.compile(
            r"\b(?:cuda|hip|cu)Stream(?:Create\w*|WaitValue\w*|BeginCapture\w*)\s*\("
            r"|\b(?:cuda|hip|cu)LaunchHostFunc\s*\(|\bgetStreamFromPool\s*\("
        ),
    ),
    Rule(
        "graph_replayed",
        "medium",
        "records a graph and replays it",
        "A graph repeats what was recorded: with copies of the first inputs, it repeats their "
        "answer.",
        paths=("torch.cuda.CUDAGraph", "torch.cuda.graph", "torch.cuda.make_graphed_callables"),
        native=re.compile(r"\b(?:cuda|hip|cu)Graph(?:Launch|Instantiate)\w*\s*\("),
    ),
    Rule(
        "thread_used",
        "medium",
        "starts a thread or a task",
        "A thread works while nobody measures, or after the answer was given.",
        paths=(
            *("threading", "_thread", "concurrent", "asyncio", "queue", "sched", "trio", "anyio"),
        ),
        native=re.compile(r"\bpthread_create\s*\(|\bstd::(?:j?thread|async)\b"),
    ),
    Rule(
        "clock_read",
        "medium",
        "reads a clock",
        "A program that knows the time can behave otherwise in the calls that it takes for "
        "measured ones. Some kernels read it to tune themselves.",
        paths=(
            *CLOCKS,
            "torch.cuda.Event",
            "torch.Event",
            "torch.utils.benchmark",
            "triton.testing",
        ),
        native=re.compile(
            r"\bclock(?:64)?\s*\(\s*\)|\bglobaltimer\b|%clock(?:64)?\b|\bstd::chrono\b"
            r"|\bclock_gettime\s*\(|\bgettimeofday\s*\(|\bcudaEventElapsedTime\s*\("
        ),
    ),
    Rule(
        "file_used",
        "medium",
        "reads or writes files or folders",
        "Files carry answers from one run to the next, and tell what kind of run it is.",
        paths=(
            *("os.open", "os.read", "os.write", "os.listdir", "os.scandir", "os.walk", "os.stat"),
            *("os.readlink", "os.makedirs", "os.mkdir", "os.unlink", "os.remove", "os.rename"),
            *("os.close", "os.access", "os.truncate", "os.ftruncate", "os.chmod", "os.symlink"),
            *("os.getcwd", "os.path.expanduser", "os.path.exists", "os.path.isfile", "io.open"),
            *("os.path.isdir", "glob", "tempfile", "shutil", "torch.save", "torch.load", "mmap"),
            *("numpy.save", "numpy.load", "numpy.memmap", "numpy.fromfile", "numpy.savez"),
            *("pathlib.Path", "sqlite3", "shelve", "torch.from_file", "joblib"),
        ),
        names=("open write_text write_bytes read_text read_bytes"),
        native=re.compile(
            r"\bf(?:open|dopen|reopen)\s*\(|\b(?:std::)?[io]?fstream\b|\bstd::filesystem\b"
        ),
    ),
    Rule(
        "environment_read",
        "medium",
        "asks where and how it runs",
        "Behaviour that depends on the machine, the command line or the environment can be honest "
        "in tests alone.",
        paths=(
            *("os.getenv", "os.environ", "os.environb", "sys.argv", "sys.path", "platform"),
            *("socket.gethostname", "os.uname", "os.getpid", "os.cpu_count", "psutil", "getpass"),
            *("os.sched_getaffinity", "sys.prefix", "sysconfig", "os.getuid"),
        ),
        native=re.compile(r"\b(?:secure_)?getenv\s*\(|\bgethostname\s*\(|\buname\s*\("),
    ),
    Rule(
        "output_forged",
        "medium",
        "writes to the output of the process",
        "Where results are read from a program's output, printing them is the oldest forgery.",
        paths=("sys.stdout", "sys.stderr", "sys.__stdout__", "os.write"),
    ),
    Rule(
        "answer_constant",
        "medium",
        "computes nothing in its entry function",
        "It returns memory as it was, or filled with one value.",
    ),
    Rule(
        "answer_compared",
        "medium",
        "compares tensors as a check does",
        "A kernel computes its answer. One that compares answers may look for one that is already "
        "in memory, or find out what the check accepts.",
        paths=(
            *("torch.allclose", "torch.isclose", "torch.equal", "torch.testing", "numpy.allclose"),
            *("numpy.isclose", "numpy.array_equal", "numpy.testing"),
        ),
    ),
    Rule(
        "fallback_used",
        "medium",
        "computes with a library when its own way fails",
        "If that way always fails, the library does all the work, and nobody notices.",
    ),
    Rule(
        "call_counted",
        "medium",
        "counts its calls, or behaves otherwise from some call on",
        "A program that knows how often it was called can be right in the calls that are checked.",
    ),
    Rule(
        "loop_endless",
        "medium",
        "has a loop without an end",
        "It never returns, or it is the body of a thread or process that stays.",
        native=re.compile(
            r"\bvolatile\b[^;{}]{0,80}\)\s*\{\s*while\s*\([^;{}]{0,60}\)\s*(?:;|\{\s*\})"
        ),
    ),
    Rule(
        "source_unusual",
        "medium",
        "cannot be parsed, or has characters or an encoding that mislead a reader",
        "What a moderator sees is not what Python or the compiler reads.",
    ),
    Rule(
        "cache_steered",
        "medium",
        "changes limits or caches of the device",
        "Inputs or code that stay in a cache from call to call make a later call too fast.",
        names=("cuCtxSetLimit cudaDeviceSetLimit cuCtxResetPersistingL2Cache"),
        native=re.compile(
            r"\b(?:cuda|hip)?(?:DeviceSetLimit|CtxSetLimit)\s*\(|\baccessPolicyWindow\b"
            r"|\bcudaLimitPersistingL2CacheSize\b"
        ),
    ),
    Rule(
        "state_kept",
        "low",
        "keeps something from one call to the next",
        "Kernels, plans and buffers are kept honestly; answers are not.",
        native=re.compile(
            r"\bstatic\s+(?:std::)?(?:unordered_map|map|vector|set|deque)\s*<"
            r"|\bstatic\s+(?:at|torch)::Tensor\b"
        ),
    ),
    Rule(
        "foreign_code",
        "low",
        "calls a library by ctypes or cffi",
        "It is a usual way to a compiled kernel, and to anything else in the process.",
        paths=("ctypes", "cffi"),
    ),
    Rule(
        "precision_lowered",
        "low",
        "computes in a lower precision than it may have been given",
        "It is faster, and right only within the tolerances that the problem states.",
        paths=(
            *("torch.backends.cuda.matmul", "torch.backends.cudnn.allow_tf32", "torch.float16"),
            *("torch.set_float32_matmul_precision", "torch.bfloat16", "torch.half"),
            *("numpy.float16", "jax.numpy.float16", "jax.numpy.bfloat16"),
        ),
        names=("half bfloat16 allow_tf32 fp32_precision"),
    ),
)
RULES_BY_ID = {rule.id: rule for rule in RULES}
