"""As much of Modal's control plane as its own client calls for a launcher, on a free port.

The messages and the service are those of the client's package, so the client speaks its real
protocol. With machines, the ready function of deploy/modal runs there for real.
"""

import asyncio
import pickle
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from grpclib import GRPCError, Status
from grpclib.server import Server, Stream
from modal_proto import api_pb2
from modal_proto.api_grpc import ModalClientBase

from tests.support.github_actions import Machines
from tests.support.platform import ROOT
from tests.support.waits import find_free_ports

APP, TOKEN_ID, TOKEN_SECRET = "warpboard-agent", "ak-1", "as-1"
FUNCTIONS = ("agent_CPU", "agent_H100")
SUCCESS = api_pb2.GenericResult.GENERIC_STATUS_SUCCESS
FAILURE = api_pb2.GenericResult.GENERIC_STATUS_FAILURE
TERMINATED = api_pb2.GenericResult.GENERIC_STATUS_TERMINATED
PENDING = api_pb2.GenericResult.GENERIC_STATUS_UNSPECIFIED
# What a container of Modal does with a call: it imports the file and calls the function.
CALL = "import runpy, sys; runpy.run_path(sys.argv[1])['run_agent'](*sys.argv[2:])"
EMPTY: Any = import_module("google.protobuf.empty_pb2").Empty
FILE = ROOT / "deploy" / "modal" / "warpboard_agent.py"


@dataclass
class Call:
    """A call of a function: its arguments, how it ended, and its log."""

    id: str
    function: str
    arguments: tuple[str, ...]
    status: int = PENDING
    log: str = ""


@dataclass
class Modal:
    """What the imitation was asked to do; `key` is the secret of the deployed functions.

    While `answers` is not set, it calls functions and does not answer.
    """

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    machines: Machines | None = None
    key: str = ""
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    def add_call(self, function: str, arguments: tuple[str, ...]) -> Call:
        """Record a call, and run it on a machine."""
        call = Call(f"fc-{len(self.calls) + 1}", function, arguments)
        self.calls.append(call)
        if self.machines is not None:
            command = [sys.executable, "-c", CALL, str(FILE), *arguments]
            self.machines.start(command, {"WARPBOARD_CREDENTIAL_KEY": self.key})
        return call

    def find(self, id_: str) -> Call:
        """Return a call, with how it ended on its machine."""
        number = int(id_.removeprefix("fc-")) - 1
        call = self.calls[number]
        if self.machines is not None and call.status == PENDING:
            code = self.machines.processes[number].poll()
            if code is not None:
                call.status = FAILURE if code else SUCCESS
                call.log = self.machines.log(number).read_text()
        return call

    def cancel(self, id_: str) -> None:
        """End a call and its machine."""
        call = self.find(id_)
        if call.status == PENDING:
            call.status = TERMINATED
        if self.machines is not None:
            self.machines.processes[int(id_.removeprefix("fc-")) - 1].terminate()


class _Service(ModalClientBase):
    """The calls of the service that a launcher makes; all others fail as not answered."""

    def __init__(self, modal: Modal) -> None:
        self._modal = modal

    async def _receive(self, stream: Stream[Any, Any]) -> Any:
        request = await stream.recv_message()
        metadata: Any = stream.metadata or {}
        tokens = (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret"))
        if tokens != (TOKEN_ID, TOKEN_SECRET):
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed or unknown")
        return request

    async def FunctionGet(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the protocol's
        request = await self._receive(stream)
        if request.app_name != APP or request.object_tag not in FUNCTIONS:
            raise GRPCError(Status.NOT_FOUND, f"no function {request.object_tag}")
        metadata = api_pb2.FunctionHandleMetadata(
            function_name=request.object_tag,
            function_type=api_pb2.Function.FUNCTION_TYPE_FUNCTION,
            app_id="ap-1",
        )
        response = api_pb2.FunctionGetResponse(
            function_id=f"fu-{request.object_tag}", handle_metadata=metadata
        )
        response.function.ranked_functions.add().function.function_name = request.object_tag
        await stream.send_message(response)

    async def FunctionMap(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._receive(stream)
        (item,) = request.pipelined_inputs
        # In the test's own process: what was pickled is ours.
        arguments, _ = pickle.loads(item.input.args)  # noqa: S301
        call = self._modal.add_call(request.function_id.removeprefix("fu-"), arguments)
        await self._modal.answers.wait()
        inputs = [api_pb2.FunctionPutInputsResponseItem(idx=0, input_id=f"in-{call.id}")]
        await stream.send_message(
            api_pb2.FunctionMapResponse(function_call_id=call.id, pipelined_inputs=inputs)
        )

    async def FunctionGetCallGraph(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        call = self._modal.find((await self._receive(stream)).function_call_id)
        status: Any = call.status
        info = api_pb2.InputCallGraphInfo(
            input_id=f"in-{call.id}", status=status, function_call_id=call.id
        )
        calls = [api_pb2.FunctionCallCallGraphInfo(function_call_id=call.id)]
        await stream.send_message(
            api_pb2.FunctionGetCallGraphResponse(inputs=[info], function_calls=calls)
        )

    async def FunctionCallFromId(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._receive(stream)
        response = api_pb2.FunctionCallFromIdResponse(
            function_call_id=request.function_call_id, num_inputs=1
        )
        response.metadata.app_id = "ap-1"
        await stream.send_message(response)

    async def FunctionCallCancel(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        request = await self._receive(stream)
        assert request.terminate_containers
        self._modal.cancel(request.function_call_id)
        await stream.send_message(EMPTY())

    async def AppFetchLogs(self, stream: Stream[Any, Any]) -> None:  # noqa: N802
        call = self._modal.find((await self._receive(stream)).function_call_id)
        lines = call.log.splitlines(keepends=True)
        batch = api_pb2.TaskLogsBatch(items=[api_pb2.TaskLogs(data=line) for line in lines])
        await stream.send_message(api_pb2.AppFetchLogsResponse(batches=[batch]))


@asynccontextmanager
async def open_modal(machines: Machines | None = None, key: str = "") -> AsyncIterator[Modal]:
    """Serve the imitation on a free port."""
    (port,) = find_free_ports(1)
    modal = Modal(f"http://127.0.0.1:{port}", machines=machines, key=key)
    modal.answers.set()
    # The service has hundreds of other calls.
    service: Any = type("Service", (_Service,), {})
    service.__abstractmethods__ = frozenset()
    server = Server([service(modal)])
    await server.start("127.0.0.1", port)
    try:
        yield modal
    finally:
        modal.answers.set()
        server.close()
        await server.wait_closed()
        if machines is not None:
            machines.end()
