"""Commands that are declared by their parts: what they call, help, example and parameters."""

import string
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import click

from warpboard.service.answers import ActionRequest, send_action
from warpboard.service.ports import Api, Screen
from warpboard.terminal import options
from warpboard.terminal.context import AppContext, PlatformTarget

Decorator = Callable[[Any], Any]


class ApiCommand(click.Command):
    """A command that awaits one function with the API, the screen, its parameters and --json.

    `access` adds the options that say who asks; operators must show a token.
    """

    def __init__(
        self,
        handler: Callable[..., Coroutine[Any, Any, int]],
        help_text: str,
        example: str,
        parameters: Sequence[Decorator] = (),
        access: Decorator = options.platform_options,
    ) -> None:
        def call(
            context: AppContext, /, place: PlatformTarget, *, as_json: bool, **values: Any
        ) -> int:
            run = context.operate if access is options.operator_options else context.ask
            return run(place, lambda api: handler(api, context.screen, **values, as_json=as_json))

        callback: Callable[..., Any] = options.pass_app(call)
        for add in (access, options.as_json, *reversed(parameters)):
            callback = add(callback)
        decorated = click.command()(callback)
        super().__init__(
            None,
            callback=decorated.callback,
            params=decorated.params,
            help=f"{help_text}\n\n\b\nExample:\n  warpboard {example}",
        )


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

        async def send(api: Api, screen: Screen, *, as_json: bool, **values: Any) -> int:
            body = {name: value for name, value in values.items() if name not in path_names}
            parts = [part.format_map(values) for part in path.split("/")]
            return await send_action(
                api, screen, ActionRequest(method, parts, body), as_json=as_json
            )

        super().__init__(send, help_text, example, parameters, access)
