"""What is said on the control socket, a message a packet: constants alone.

Supervisor to worker: CASE + the layout of two shared memories as JSON, with their two descriptors;
GO + nonce + the leaves that are no tensors as JSON. Worker to supervisor: READY; DONE + nonce;
FAILED + {"kind", "text"} as JSON. Anything else ends the run with the verdict `protocol`.
"""

READY = b"R"
DONE = b"D"
FAILED = b"F"
CASE = b"C"
GO = b"G"

NONCE_BYTES = 16
SCALARS_BYTES_MAX = 4096
LAYOUT_BYTES_MAX = 128 * 1024
ANSWER_BYTES_MAX = 32 * 1024
TEXT_CHARS_MAX = 2000

FAILURE_KINDS = ("compile_error", "import_error", "exception", "output", "memory")
