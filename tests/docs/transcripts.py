"""Runs what a documentation page tells its reader to do, and compares what it prints.

These fenced blocks are executed, in their order; all others are only shown:

- `console`: commands after `$ `, continued after `> `, each followed by the output that it prints.
  With `host="a b"` the block is executed on these hosts, one after the other.
- a language with `title="FILE"`: a file, which is written.
- `diff`: a change, which `git apply` makes.

In the output `…` stands for any text, and alone on a line for any lines. A number with a unit of
time stands for any duration. `NUMBER` stands for digits, and in later commands for those digits.
A command must exit with 0, unless the next one is `echo $?`. `warpboard up` runs in a terminal of
its own; if it runs there already, its output is compared again.
"""

import difflib
import os
import re
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.platform import TIMED_AT_ONCE

ROOT = Path(__file__).parent.parent.parent
COMMAND_S_MAX = 600
END_S_MAX = 60
# Steps that take longer are printed with their times.
SHOWN_S_MIN = 1.0
FENCE = re.compile(r"^(`{3,})(\w*)(.*)$")
TITLE = re.compile(r'title="([^"]+)"')
HOSTS = re.compile(r'host="([^"]+)"')
ECHO_STATUS = "echo $?"
UP = "warpboard up"
PLACEHOLDERS = {
    "NUMBER": r"\d+",
    "OTHER": r"\d+",
    "DIGEST": "[0-9a-f]{64}",
    # The address of a machine.
    "ADDRESS": r"\d+(?:\.\d+){3}",
}
PLACEHOLDER = re.compile(rf"\b({'|'.join(PLACEHOLDERS)})\b")
DURATION = r"[\d.,]+ (?:± [\d.,]+ )?(?:ns|µs|ms|s|min|h)\b"
# Parts of an expected line that do not stand for themselves.
WILDCARD = re.compile(rf"…|{DURATION}(?: \d+ (?:s|min)\b)?|{PLACEHOLDER.pattern}")
# A reader's shell has these; what else the tests' environment has is left out.
INHERITED = ("LANG", "PATH", "PIP_CERT", "PIP_FIND_LINKS", "SSL_CERT_FILE", "TMPDIR", "USER")
# Duels, confirmations, retimes and baselines would keep the only agent busy between the commands.
SETTINGS = {
    "WARPBOARD_RANKER_DUELS": "false",
    "WARPBOARD_RANKER_CONFIRMATIONS": "false",
    "WARPBOARD_RANKER_RETIMES": "false",
    "WARPBOARD_SCHEDULER_BASELINE_PAUSE_S": "3600",
    **TIMED_AT_ONCE,
    "PYTHONDONTWRITEBYTECODE": "",
}


@dataclass(frozen=True)
class Step:
    """A command, or a file or a change that one command writes, and the output expected of it.

    `host` is where it runs; "" is the only machine of most pages.
    """

    line: int
    command: str
    output: tuple[str, ...] = ()
    host: str = ""


def read_steps(text: str) -> Iterator[Step]:
    r"""Return what a page tells its reader to do.

    >>> page = "```console\n$ ls \\\n> -a\n.\n…\n```\n"
    >>> list(read_steps(page))
    [Step(line=2, command='ls \\\n-a', output=('.', '…'), host='')]
    """
    for line, language, info, body in _blocks(text):
        if language == "console":
            names = HOSTS.search(info)
            for host in names[1].split() if names else ("",):
                yield from (replace(step, host=host) for step in _console_steps(line, body))
        elif title := TITLE.search(info):
            yield Step(line, f"cat > {title[1]} <<'END_OF_FILE'\n{body}END_OF_FILE")
        elif language == "diff":
            yield Step(line, f"git apply --recount - <<'END_OF_FILE'\n{body}END_OF_FILE")


def _blocks(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield each fenced block: its first line's number, language, other words and content."""
    fence, start, language, info, body = "", 0, "", "", ""
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line.strip())
        if fence and match and match[1] == fence and not match[2]:
            yield start, language, info, body
            fence = ""
        elif fence:
            body += f"{line}\n"
        elif match:
            start, body = number + 1, ""
            fence, language, info = match.groups()
    assert not fence, f"line {start}: this block does not end"


def _console_steps(line: int, body: str) -> Iterator[Step]:
    command: list[str] = []
    output: list[str] = []
    start = line
    for number, text in enumerate(body.splitlines(), line):
        if text.startswith("$ "):
            if command:
                yield Step(start, "\n".join(command), tuple(output))
            command, output, start = [text.removeprefix("$ ")], [], number
        elif text.startswith("> ") and command and not output:
            command.append(text.removeprefix("> "))
        else:
            assert command, f"line {number}: output before the first command"
            output.append(text)
    yield Step(start, "\n".join(command), tuple(output))


def match_output(
    expected: tuple[str, ...], printed: str, values: dict[str, str]
) -> dict[str, str] | None:
    """Return the values of the placeholders if the output is the expected one, else None.

    `values` are those that the command itself named.

    >>> match_output(("1  ada  …  NUMBER", "…", "end"), "1 ada 9.4 ms 17\\n\\nend\\n", {})
    {'NUMBER': '17'}
    >>> match_output(("passed in 2 s",), "passed in 1 min 4 s\\n", {})
    {}
    >>> match_output(("2 of 2 passed",), "1 of 2 passed\\n", {})
    """
    match = re.fullmatch(_pattern(expected, values), "\n".join([*_plain_lines(printed), ""]))
    return None if match is None else match.groupdict()


def _plain_lines(text: str) -> list[str]:
    """Return the lines with single spaces: the width of a column depends on what it holds."""
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def _pattern(expected: tuple[str, ...], values: dict[str, str]) -> str:
    known = dict(values)
    pattern = ""
    for line in _plain_lines("\n".join(expected)):
        pattern += r"(?:.*\n)*?" if line == "…" else rf"{_line_pattern(line, known)}\n"
    return pattern


def _line_pattern(line: str, known: dict[str, str]) -> str:
    """Return the expression of one line; a placeholder means the same wherever it comes again."""
    pattern, end = "", 0
    for match in WILDCARD.finditer(line):
        pattern += re.escape(line[end : match.start()])
        name, end = match[1], match.end()
        if name is None:
            pattern += ".*?" if match[0] == "…" else rf"{DURATION}(?: \d+ (?:s|min)\b)?"
        elif name in known:
            pattern += known[name]
        else:
            pattern += f"(?P<{name}>{PLACEHOLDERS[name]})"
            known[name] = f"(?P={name})"
    return pattern + re.escape(line[end:])


@dataclass
class Terminal:
    """A command that runs until Ctrl-C, and the file with all that it printed."""

    process: "subprocess.Popen[bytes]"
    log: Path


@dataclass
class Reader:
    """Follows pages in a shell whose folder is a clone; use it as a context manager.

    `hosts` has the beginning of the commands with which each host of a page gets a shell.
    """

    clone: Path
    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    hosts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _shells: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)
    _terminals: dict[str, Terminal] = field(default_factory=dict)

    def __enter__(self) -> Self:
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self.home.mkdir(exist_ok=True)
        self._environ = inherited | SETTINGS | {"HOME": str(self.home)} | self.environ
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_shells()
        for terminal in self._terminals.values():
            terminal.process.send_signal(signal.SIGINT)
        for terminal in self._terminals.values():
            terminal.process.wait(END_S_MAX)

    def follow(self, page: Path) -> None:
        """Do what a page says, from the clone's folder; fails with each output that differs."""
        steps = list(read_steps(page.read_text(encoding="utf-8")))
        assert steps, f"{page} has no step"
        self._stop_shells()
        self.values = {}
        began = time.monotonic()
        findings = []
        for step, next_step in zip(steps, [*steps[1:], None], strict=True):
            may_fail = next_step is not None and next_step.command == ECHO_STATUS
            step_began = time.monotonic()
            if finding := self._take(step, may_fail=may_fail):
                where = f" on {step.host}" if step.host else ""
                findings.append(f"{page.name}, line {step.line}{where}: {finding}")
                if step.host:
                    # What follows on several hosts would only wait for what is missing.
                    break
            if (step_s := time.monotonic() - step_began) >= SHOWN_S_MIN:
                sys.stdout.write(f"  {step_s:5.1f} s  {step.command.splitlines()[0]}\n")
        took_s = time.monotonic() - began
        sys.stdout.write(f"{page.name}: {len(steps)} steps in {took_s:.0f} s\n")
        assert not findings, "\n\n".join(findings)

    def _take(self, step: Step, *, may_fail: bool) -> str | None:
        """Take a step; return what differs from the page, None if nothing does."""
        names = {*PLACEHOLDER.findall(step.command)}
        if missing := names - {*self.values}:
            return f"{step.command}\nnothing printed {', '.join(sorted(missing))} before"
        # Each command that prints a number of its own begins with a new one.
        lasting = {"DIGEST", "ADDRESS", *names}
        named = {name: text for name, text in self.values.items() if name in lasting}
        command = PLACEHOLDER.sub(lambda match: named[match[0]], step.command)
        if command.startswith(UP):
            status, printed = 0, self._open_terminal(command, step, named)
        else:
            status, printed = self._run(command, step.host)
        values = match_output(step.output, printed, named)
        if values is None:
            lines = difflib.ndiff(_plain_lines("\n".join(step.output)), _plain_lines(printed))
            return "\n".join([command, *lines])
        self.values |= values
        return f"{command}\nexit code {status}\n{printed}" if status and not may_fail else None

    def _shell(self, host: str) -> "subprocess.Popen[bytes]":
        """Return the shell of a host, which starts with its first command."""
        if host not in self._shells:
            self._shells[host] = subprocess.Popen(
                [*self.hosts.get(host, ()), "/bin/bash", "--noprofile", "--norc"],
                cwd=self.clone,
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._shells[host]

    def _stop_shells(self) -> None:
        for shell in self._shells.values():
            shell.kill()
            shell.wait(END_S_MAX)
            for stream in (shell.stdin, shell.stdout):
                if stream is not None:
                    stream.close()
        self._shells.clear()

    def _run(self, command: str, host: str) -> tuple[int, str]:
        """Run a command in the shell of a host; its exit code and what it printed."""
        shell = self._shell(host)
        assert shell.stdin is not None
        mark = secrets.token_hex(8)
        # The last command leaves the exit code as it was, for `echo $?`.
        script = f"{{\n{command}\n}} 2>&1 </dev/null\n(s=$?; echo {mark}$s; exit $s)\n"
        shell.stdin.write(script.encode())
        shell.stdin.flush()
        printed, _, status = self._read_until(shell, mark, command).rpartition(mark)
        return int(status), printed

    @staticmethod
    def _read_until(shell: "subprocess.Popen[bytes]", mark: str, command: str) -> str:
        """Read the shell's output up to the line that begins with a mark."""
        assert shell.stdout is not None
        until, data = time.monotonic() + COMMAND_S_MAX, b""
        with selectors.DefaultSelector() as selector:
            selector.register(shell.stdout, selectors.EVENT_READ)
            while not re.search(rf"{mark}\d+\n$", text := data.decode(errors="replace")):
                is_there = selector.select(until - time.monotonic())
                assert is_there, f"{command}: not over after {COMMAND_S_MAX} s\n{text}"
                read = os.read(shell.stdout.fileno(), 65536)
                assert read, f"{command}: the shell has ended\n{text}"
                data += read
        return text

    def _open_terminal(self, command: str, step: Step, named: dict[str, str]) -> str:
        """Run a command beside the shell until it has printed what is expected, and leave it."""
        terminal = self._terminals.get(command)
        if terminal is None or terminal.process.poll() is not None:
            log = self.home / f"terminal-{secrets.token_hex(4)}.log"
            with log.open("wb") as file:
                process = subprocess.Popen(
                    ["/bin/bash", "-c", f"exec {command}"],
                    cwd=self.clone,
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
            terminal = self._terminals[command] = Terminal(process, log)
        until = time.monotonic() + COMMAND_S_MAX
        while match_output(step.output, printed := terminal.log.read_text(), named) is None:
            if terminal.process.poll() is not None or time.monotonic() > until:
                break
            time.sleep(0.1)
        return printed


def copy_clone(target: Path) -> Path:
    """Copy the files of this clone as git knows them, changed ones included; their times remain.

    The environment is this one, so `make install` has nothing left to do.
    """
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
    target.mkdir()
    for name in filter(None, names.decode().split("\0")):
        source, copy = ROOT / name, target / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
            os.utime(copy, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
    (target / ".venv").symlink_to(sys.prefix)
    return target
