"""How commands are declared: functions with options and examples, whose docstrings are the help."""

import asyncio
import inspect
import signal
import string
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import click

from warpboard.api import Api
from warpboard.context import AppContext, PlatformTarget, send_action
from warpboard.terminal import options
from warpboard.terminal.options import Decorator
from warpboard.terminal.program import Stopped, create_context

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[..., int | Coroutine[Any, Any, int]]


def build_command(
    handler: Handler,
    help_text: str,
    examples: Sequence[str],
    parameters: Sequence[Decorator],
    access: Sequence[Decorator] | None,
) -> click.Command:
    """Make a command of a function that gets the AppContext and the command's parameters.

    The help lists `parameters`, --json, then `access`: the options that name a platform.
    """

    def call(*, as_json: bool, **values: Any) -> int:
        place = PlatformTarget()
        if access is not None:
            place = PlatformTarget(*(values.pop(name, None) for name in options.TARGET_NAMES))
        is_wide = values.pop("is_wide", False)
        context = replace(create_context(), place=place, as_json=as_json, is_wide=is_wide)
        result = handler(context, **values)
        return result if isinstance(result, int) else run(result)

    callback: Callable[..., Any] = call
    for add in reversed((*parameters, options.AS_JSON, *(access or ()))):
        callback = add(callback)
    lines = "".join(f"\n  warpboard {example}" for example in examples)
    help_text = f"{inspect.cleandoc(help_text)}\n\n\b\nExample:{lines}"
    return click.command(help=help_text)(callback)


def local_command(
    *examples: str, parameters: Sequence[Decorator] = (), access: Sequence[Decorator] | None = None
) -> Callable[[Handler], click.Command]:
    """Make a command of a function that gets the AppContext."""
    return lambda handler: build_command(
        handler, handler.__doc__ or "", examples, parameters, access
    )


def api_command(
    *examples: str,
    parameters: Sequence[Decorator] = (),
    access: Sequence[Decorator] = options.PLATFORM,
) -> Callable[[Handler], click.Command]:
    """Make a command of a coroutine function that gets the AppContext and the API.

    With the options of operators, it is called as an operator, who must show a token.
    """

    def decorate(handler: Callable[..., Any]) -> click.Command:
        async def call(context: AppContext, **values: Any) -> int:
            is_operator = access is options.OPERATOR
            async with context.operator_api() if is_operator else context.api() as api:
                code: int = await handler(context, api, **values)
                return code

        return build_command(call, handler.__doc__ or "", examples, parameters, access)

    return decorate


def action_command(
    route: str,
    help_text: str,
    example: str,
    parameters: Sequence[Decorator],
    access: Sequence[Decorator],
) -> click.Command:
    """Make a command that sends one request.

    `route` is the method and the path under /v1; parameters that it does not name make the
    request's body.
    """
    method, _, path = route.partition(" ")
    path_names = {name for _, name, _, _ in string.Formatter().parse(path) if name}

    async def send(context: AppContext, api: Api, **values: Any) -> int:
        body = {name: value for name, value in values.items() if name not in path_names}
        parts = [part.format_map(values) for part in path.split("/")]
        return await send_action(context, api, method, *parts, body=body)

    send.__doc__ = help_text
    return api_command(example, parameters=parameters, access=access)(send)


def read_stdin_line(chars_max: int) -> str:
    """Return the first line of stdin, which `-` stands for; "" if there is none."""
    stdin: Any = sys.stdin
    return stdin.readline(chars_max).strip() if stdin else ""


def can_ask() -> bool:
    """Return whether somebody can read a question and answer it."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


async def confirm(question: str) -> bool:
    """Ask on the terminal; anything but y or yes means no. Ctrl-C cancels the command as usual."""
    loop, is_answered = asyncio.get_running_loop(), asyncio.Event()
    click.echo(f"{question} [y/N]: ", nl=False, err=True)
    loop.add_reader(sys.stdin, is_answered.set)
    try:
        await is_answered.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def run(command: Coroutine[Any, Any, int]) -> int:
    """Run a command and return its exit code; the first signal cancels it, later ones are ignored.

    Raises the errors of the command, and Stopped after a signal, once the command has cleaned up.
    """
    return asyncio.run(_run_until_signal(command))


async def _run_until_signal(command: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(command)
    signals: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not signals:
            task.cancel()
        signals.append(number)

    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, stop, number)
    try:
        code = await task
        # Only Ctrl-C may end a command with a code of its own.
        if signals and signals[0] != signal.SIGINT:
            raise Stopped(signals[0])
        return code
    except asyncio.CancelledError as cancelled:
        if signals:
            raise Stopped(signals[0]) from cancelled
        raise
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
