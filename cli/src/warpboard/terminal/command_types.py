"""How commands are declared: by a function, or by the request that they send."""

import asyncio
import inspect
import signal
import string
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import click

from warpboard.service.context import AppContext, PlatformTarget, send_action
from warpboard.service.ports import Api
from warpboard.terminal import options
from warpboard.terminal.program import Stopped, create_context

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Decorator = Callable[[Any], Any]
Handler = Callable[..., Coroutine[Any, Any, int]]


class LocalCommand(click.Command):
    """A command that calls one function with the AppContext and its parameters.

    Its order of options is: its own, --json, then those that `access` adds.
    """

    def __init__(
        self,
        handler: Callable[..., int | Coroutine[Any, Any, int]],
        help_text: str,
        examples: Sequence[str],
        parameters: Sequence[Decorator],
        access: Decorator | None = None,
    ) -> None:
        def call(*, as_json: bool, place: PlatformTarget | None = None, **values: Any) -> int:
            context = replace(create_context(), place=place or PlatformTarget(), as_json=as_json)
            result = handler(context, **values)
            return result if isinstance(result, int) else run(result)

        callback: Callable[..., Any] = access(call) if access else call
        for add in (options.as_json, *reversed(parameters)):
            callback = add(callback)
        decorated = click.command()(callback)
        lines = "".join(f"\n  warpboard {example}" for example in examples)
        super().__init__(
            None,
            callback=decorated.callback,
            params=decorated.params,
            help=f"{inspect.cleandoc(help_text)}\n\n\b\nExample:{lines}",
        )


class ApiCommand(LocalCommand):
    """A command that awaits one function with the AppContext, the API and its parameters.

    `access` adds the options that say who asks; operators must show a token.
    """

    def __init__(
        self,
        handler: Handler,
        help_text: str,
        examples: Sequence[str],
        parameters: Sequence[Decorator],
        access: Decorator,
    ) -> None:
        async def call(context: AppContext, **values: Any) -> int:
            is_operator = access is options.operator_options
            opened = (context.office if is_operator else context.api)(context.place)
            async with opened as api:
                return await handler(context, api, **values)

        super().__init__(call, help_text, examples, parameters, access)


class ActionCommand(ApiCommand):
    """A command that sends one request, by default as an operator.

    `route` is the method and the path under /v1; parameters that it does not name make the
    request's body.
    """

    def __init__(
        self,
        route: str,
        help_text: str,
        example: str,
        parameters: Sequence[Decorator],
        access: Decorator = options.operator_options,
    ) -> None:
        method, _, path = route.partition(" ")
        path_names = {name for _, name, _, _ in string.Formatter().parse(path) if name}

        async def send(context: AppContext, api: Api, **values: Any) -> int:
            body = {name: value for name, value in values.items() if name not in path_names}
            parts = [part.format_map(values) for part in path.split("/")]
            return await send_action(context, api, method, *parts, body=body)

        super().__init__(send, help_text, [example], parameters, access)


def local_command(
    *examples: str, parameters: Sequence[Decorator] = (), access: Decorator | None = None
) -> Callable[[Callable[..., int | Coroutine[Any, Any, int]]], LocalCommand]:
    """Make a command of a function that gets the AppContext; its docstring is the help."""
    return lambda handler: LocalCommand(
        handler, handler.__doc__ or "", examples, parameters, access
    )


def api_command(
    *examples: str,
    parameters: Sequence[Decorator] = (),
    access: Decorator = options.platform_options,
) -> Callable[[Handler], ApiCommand]:
    """Make a command of a function that gets the AppContext and the API."""
    return lambda handler: ApiCommand(handler, handler.__doc__ or "", examples, parameters, access)


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
        return await task
    except asyncio.CancelledError as cancelled:
        if signals:
            raise Stopped(signals[0]) from cancelled
        raise
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
