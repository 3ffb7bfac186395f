"""The spans of an HTTP request, recorded once it is over."""

import time
from contextvars import ContextVar
from typing import Any

from shared.tracing import NUMBER_ATTRIBUTE, REQUEST, Attributes, Span, SpanRecorder


class RequestTrace:
    """The spans of one HTTP request, until it is known which submissions it led to."""

    def __init__(self) -> None:
        self.began_ns = self._step_began_ns = time.time_ns()
        self._steps: list[tuple[str, int, int]] = []
        self._accepted: dict[str, int] = {}

    def end_step(self, name: str) -> None:
        """Note that a step ended, which began where the step before it ended."""
        now_ns = time.time_ns()
        self._steps.append((name, self._step_began_ns, now_ns))
        self._step_began_ns = now_ns

    def accept(self, submission: str, number: int) -> None:
        """Note what the request led to; `number` is its sequence."""
        self._accepted[submission] = number

    def record(self, recorder: SpanRecorder, name: str, status: int) -> None:
        """Record the request and its steps in the trace of each submission or evaluation."""
        ended_ns = time.time_ns()
        for submission, number in self._accepted.items():
            attributes: Attributes = {
                NUMBER_ATTRIBUTE: number,
                "http.response.status_code": status,
            }
            request = Span(
                *(submission, REQUEST, "", name, self.began_ns, ended_ns, "server"), attributes
            )
            recorder.record(request)
            for step, began_ns, step_ended_ns in self._steps:
                recorder.record(
                    Span(
                        *(submission, f"{REQUEST}/{step}", REQUEST),
                        *(step, began_ns, step_ended_ns),
                    )
                )


class UntracedRequest(RequestTrace):
    """Notes nothing: tracing is off, or there is no request."""

    def end_step(self, name: str) -> None:
        """Note nothing."""

    def accept(self, submission: str, number: int) -> None:
        """Note nothing."""


_UNTRACED = UntracedRequest()
_current: ContextVar[RequestTrace] = ContextVar("request_trace", default=_UNTRACED)


def request_trace() -> RequestTrace:
    """Return the trace of the current request; one that notes nothing if tracing is off."""
    return _current.get()


class TracingMiddleware:
    """An ASGI middleware that records requests that led to submissions."""

    def __init__(self, app: Any, recorder: SpanRecorder) -> None:
        self._app = app
        self._recorder = recorder

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Respond, and record. Source: the ASGI specification."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        status, trace = 500, RequestTrace()
        token = _current.set(trace)

        async def send_noted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        finally:
            _current.reset(token)
            route = getattr(scope.get("route"), "path", scope["path"])
            trace.record(self._recorder, f"POST {route}", status)
