"""Starts agents as calls of functions of an app on Modal, with Modal's own client.

The result of a call is never read, because the client would unpickle it, and the container that
wrote it has run a submission. The call's status and log say how it ended.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import modal
from grpclib.exceptions import StreamTerminatedError
from modal.exception import ConnectionError as ModalConnectionError
from modal.exception import Error, InternalError, ServiceError
from modal.types import InputStatus

from scheduler.launcher.service import End, LostAnswer, Request
from shared.errors import Failed

logger = logging.getLogger(__name__)

REQUEST_S_MAX = 30.0
LOG_ENTRIES_MAX = 50
LOG_LENGTH_MAX = 1000
CALL_URL = "https://modal.com/id/{id}"
# The name of the function for a GPU type in the deployed app.
FUNCTION = "agent_{gpu}"
# After one of these nobody knows whether Modal did what it was asked for.
UNCLEAR_ERRORS = (ModalConnectionError, ServiceError, InternalError, StreamTerminatedError, OSError)


class ModalRunner:
    """Agents as calls of the functions of an app, found again by their ids in a folder.

    The file of a request is empty until Modal has answered with the id of the call, and exists
    until the end of the agent is stored.
    """

    def __init__(
        self, client: modal.Client, app: str, environment: str, folder: Path, poll_s: float = 5.0
    ) -> None:
        self._client, self._app, self._environment = client, app, environment or None
        self._folder = folder
        self.poll_s = poll_s
        folder.mkdir(parents=True, exist_ok=True)

    async def start(self, request: Request, credential: str) -> None:
        """Call the function of the GPU type; see the port."""
        function: modal.Function[Any, Any, Any] = modal.Function.from_name(
            self._app,
            FUNCTION.format(gpu=request.gpu),
            environment_name=self._environment,
            client=self._client,
        )
        async with _failing("start an agent"):
            await function.hydrate.aio()
        path = self._path(request)
        path.touch()
        try:
            async with _failing("start an agent", LostAnswer):
                call = await function.spawn.aio(request.id, request.gpu, credential)
        except Failed as failed:
            if not isinstance(failed, LostAnswer):
                path.unlink()
            raise
        path.write_text(call.object_id, encoding="utf-8")

    async def has_started(self, request: Request) -> bool:
        """Return whether a call was made; see the port."""
        path = self._path(request)
        if path.exists() and not path.read_text(encoding="utf-8"):
            raise Failed("Modal did not answer with its call, and may have started it")
        return path.exists()

    async def find_end(self, request: Request) -> End | None:
        """Return how a call ended, with the end of its log; see the port."""
        call = self._find_call(request)
        if call is None:
            return None
        async with _failing("read the state of an agent"):
            inputs = await call.get_call_graph.aio()
        statuses = [it.status for it in inputs if it.function_call_id == call.object_id]
        if not statuses or InputStatus.PENDING in statuses:
            return None
        url = CALL_URL.format(id=call.object_id)
        if statuses == [InputStatus.SUCCESS]:
            return End("", url)
        status = statuses[0].name.lower().replace("_", " ")
        return End(f"the call ended with {status}{await self._read_log(call)}", url)

    async def stop(self, request: Request) -> None:
        """Cancel a call and its container; see the port."""
        call = self._find_call(request)
        if call is not None:
            async with _failing("stop an agent"):
                await call.cancel.aio(terminate_containers=True)
        self.forget(request)

    def forget(self, request: Request) -> None:
        """Remove the file of a request; see the port."""
        self._path(request).unlink(missing_ok=True)

    async def close(self) -> None:
        """Close the connections; calls go on."""
        try:
            async with _failing("close the connection"):
                await self._client.close.aio()
        except Failed as failed:
            logger.warning("%s", failed)

    def _path(self, request: Request) -> Path:
        return self._folder / request.id

    def _find_call(self, request: Request) -> "modal.FunctionCall[Any] | None":
        path = self._path(request)
        id_ = path.read_text(encoding="utf-8") if path.exists() else ""
        return modal.FunctionCall.from_id(id_, client=self._client) if id_ else None

    async def _read_log(self, call: "modal.FunctionCall[Any]") -> str:
        """Return the end of a call's log, as far as it can be read."""
        try:
            async with _failing("read a log"):
                entries = [entry async for entry in call.logs.tail.aio(LOG_ENTRIES_MAX)]
        except Failed as failed:
            return f"; its log cannot be read: {failed}"
        return f": {''.join(entry.message for entry in entries).strip()[-LOG_LENGTH_MAX:]}"


@asynccontextmanager
async def _failing(action: str, unclear: type[Failed] = Failed) -> AsyncIterator[None]:
    """Turn the errors of Modal's client into Failed, and what may be a lost answer into another."""
    try:
        async with asyncio.timeout(REQUEST_S_MAX):
            yield
    except TimeoutError as late:
        raise unclear(f"Modal did not {action} within {REQUEST_S_MAX:g} s") from late
    except UNCLEAR_ERRORS as error:
        raise unclear(f"Modal did not {action}: {error}") from error
    except Error as error:
        raise Failed(f"Modal did not {action}: {error}") from error


async def connect_modal(token_id: str, token_secret: str) -> modal.Client:
    """Return a client of a workspace; MODAL_SERVER_URL is its own setting. Raises Failed."""
    async with _failing("accept a connection"):
        return await modal.Client.from_credentials.aio(token_id, token_secret)
