"""The server: connections, latency, bandwidth, faults, and what was counted."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from alance.testing.endpoint.faults import Fault, FaultKind, FaultPlan
from alance.testing.endpoint.http import (
    HEAD_BYTES_MAX,
    Answer,
    BadRequestError,
    HttpRequest,
    build_head,
    read_request,
)
from alance.testing.endpoint.s3 import S3, ObjectAnswer, error_answer, kind_of

__all__ = ["CONTROL", "Counters", "Exchange", "Server", "Settings"]

CONTROL = "/-/"
"""Requests below this path are for the server itself; no bucket has such a name."""
CHUNK_BYTES = 256 << 10
PACED_S = 0.005
"""Time that a chunk takes at the bandwidth of a connection."""
LOG_MAX = 200_000

_REFUSALS = {
    FaultKind.SLOW_DOWN: (503, "SlowDown", "Please reduce your request rate."),
    FaultKind.TOO_MANY: (429, "TooManyRequests", "Please reduce your request rate."),
    FaultKind.INTERNAL: (500, "InternalError", "We encountered an internal error."),
    FaultKind.DENIED: (403, "AccessDenied", "Access Denied"),
    FaultKind.EXPIRED_TOKEN: (403, "ExpiredToken", "The provided token has expired."),
    FaultKind.MISSING: (404, "NoSuchKey", "The specified key does not exist."),
}


@dataclass(slots=True)
class Settings:
    """How far away and how narrow the server is.

    Parameters
    ----------
    latency_s
        Before each answer begins.
    bandwidth
        Bytes per second of one connection, either way; 0 for all that the machine can do.
    answers_max
        Requests that are answered at once; more are told to slow down. 0 for all.
    """

    latency_s: float = 0.0
    bandwidth: float = 0.0
    answers_max: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what became of it.

    Parameters
    ----------
    kind
        As it is counted.
    key
        Bucket and name.
    arrived_s, answered_s
        On the server's monotonic clock: the request was there; its answer had been sent.
    num_bytes
        Of the answer's body that were sent.
    """

    kind: str
    key: str
    arrived_s: float
    answered_s: float
    num_bytes: int


@dataclass(slots=True)
class Counters:
    """What has happened since the last reset.

    Attributes
    ----------
    requests
        By kind: get, head, list, put, put_if_absent, create, part, complete, abort, copy, delete,
        delete_many. Those that went wrong count as well.
    bytes_sent
        Bytes of bodies that left the process, those of aborted answers included.
    bytes_received
        Bytes of bodies that arrived.
    faults
        Requests that went wrong on purpose.
    aborted
        Answers that the client did not wait for.
    connections
        Opened.
    log
        The first 200,000 exchanges.
    """

    requests: dict[str, int] = field(default_factory=dict)
    bytes_sent: int = 0
    bytes_received: int = 0
    faults: int = 0
    aborted: int = 0
    connections: int = 0
    log: list[Exchange] = field(default_factory=list)

    @property
    def num_requests(self) -> int:
        """Requests of all kinds together."""
        return sum(self.requests.values())


class Server:
    """One S3 endpoint on one event loop.

    Parameters
    ----------
    s3
        What it serves.
    settings
        May be changed at any time.

    Attributes
    ----------
    counters
        Since the last `reset`.
    answering
        Requests that have arrived and are not answered to the end.
    """

    def __init__(self, s3: S3, settings: Settings) -> None:
        self.s3 = s3
        self.settings = settings
        self.counters = Counters()
        self.answering = 0
        self._changed = threading.Condition()
        self._plan = FaultPlan()
        self._connections: set[asyncio.Task[None]] = set()

    def reset(self, faults: Sequence[Fault] = ()) -> None:
        """Count from zero, with these faults in place of earlier ones."""
        self.counters = Counters()
        self._plan = FaultPlan(faults)

    def wait_until(self, is_so: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
        """Block another thread than the server's until the counters, or `answering`, are so."""
        with self._changed:
            if not self._changed.wait_for(is_so, timeout_s):
                raise TimeoutError(f"still not so after {timeout_s} s: {self.counters.requests}")

    def tell(self) -> None:
        """Wake those in `wait_until`: something was counted."""
        with self._changed:
            self._changed.notify_all()

    async def start(self, port: int) -> int:
        """Listen on a port of this machine, 0 for a free one; returns which."""
        server = await asyncio.start_server(
            self._connected, "127.0.0.1", port, limit=HEAD_BYTES_MAX, backlog=1024
        )
        self._listening = server
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Listen no more, and cut all connections."""
        self._listening.close()
        for task in tuple(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a callback of the server runs in a task"
        self._connections.add(task)
        self.counters.connections += 1
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer.transport.set_write_buffer_limits(high=0)  # so that `drain` means: it has left
        try:
            await self._converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the server is going
        except BadRequestError as exc:
            _write_whole(writer, error_answer(501, "NotImplemented", str(exc)))
        finally:
            writer.close()
            self._connections.discard(task)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        while not writer.is_closing():
            request = await read_request(reader, writer)
            if request is None:
                return
            if request.path.startswith(CONTROL):
                _write_whole(writer, self._control(request))
            else:
                await self._exchange(request, _Line(writer, self))

    async def _exchange(self, request: HttpRequest, line: _Line) -> None:
        """Count a request, wait as long as its way takes, answer it."""
        counters, arrived_s = self.counters, time.monotonic()
        kind, key = kind_of(request), request.path[1:]
        counters.requests[kind] = counters.requests.get(kind, 0) + 1
        counters.bytes_received += len(request.body)
        fault = self._plan.next(kind, key, request.headers.get("x-amz-security-token", ""))
        if fault is None and 0 < self.settings.answers_max <= self.answering:
            fault = Fault(FaultKind.SLOW_DOWN)
        counters.faults += fault is not None
        self.answering += 1
        self.tell()
        try:
            delay_s = self.settings.latency_s + (fault.delay_s if fault is not None else 0.0)
            await asyncio.sleep(delay_s)
            await line.take(len(request.body))
            answer = self._answer(request, fault)
            if fault is not None and fault.kind is FaultKind.LOST:
                line.cut()
            else:
                await line.send(answer, fault, with_body=request.method != "HEAD")
        except ConnectionError:
            counters.aborted += 1
            raise
        finally:
            self.answering -= 1
            if len(counters.log) < LOG_MAX:
                done_s = time.monotonic()
                counters.log.append(Exchange(kind, key, arrived_s, done_s, line.num_bytes))
            self.tell()

    def _answer(self, request: HttpRequest, fault: Fault | None) -> Answer | ObjectAnswer:
        """The fault's answer, or the right one."""
        refusal = _REFUSALS.get(fault.kind) if fault is not None else None
        return self.s3.answer(request) if refusal is None else error_answer(*refusal)

    def _control(self, request: HttpRequest) -> Answer:
        """Requests to the server itself: counters, reset, settings."""
        command, said = request.path[len(CONTROL) :], json.loads(request.body or b"{}")
        if command == "reset":
            self.reset([Fault(**{**one, "kind": FaultKind(one["kind"])}) for one in said or ()])
        elif command == "settings":
            self.settings = Settings(**said)
        elif command != "counters":
            return error_answer(404, "NoSuchCommand", command)
        told = json.dumps(asdict(self.counters))
        return Answer(200, told.encode(), {"content-type": "application/json"})


class _Line:
    """The way of one answer to its client: counted, and as narrow as the settings say."""

    def __init__(self, writer: asyncio.StreamWriter, server: Server) -> None:
        self._writer = writer
        self._server = server
        self._bandwidth = server.settings.bandwidth
        self._counters = server.counters
        self._free_s = 0.0
        self.num_bytes = 0

    def cut(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()

    async def take(self, num_bytes: int) -> None:
        """Wait as long as so many bytes keep the line busy."""
        if self._bandwidth > 0 and num_bytes:
            now_s = time.monotonic()
            self._free_s = max(self._free_s, now_s) + num_bytes / self._bandwidth
            await asyncio.sleep(self._free_s - now_s)

    async def send(
        self, answer: Answer | ObjectAnswer, fault: Fault | None, *, with_body: bool
    ) -> None:
        """Send an answer, as far as the fault allows."""
        size = answer.num_bytes
        claimed = length = size
        if fault is not None and fault.kind is FaultKind.TRUNCATED and with_body:
            claimed = length = min(size, fault.after_bytes)
        elif fault is not None and fault.kind is FaultKind.CUT:
            length = min(size, fault.after_bytes)
        self._writer.write(build_head(answer.status, answer.headers, claimed))
        chunk = int(self._bandwidth * PACED_S) or CHUNK_BYTES
        place = 0
        while with_body and place < length:
            piece = answer.read(place, min(place + chunk, length))
            await self.take(piece.nbytes)
            self._writer.write(piece)
            await self._writer.drain()
            place += piece.nbytes
            self.num_bytes += piece.nbytes
            self._counters.bytes_sent += piece.nbytes
            self._server.tell()
            if not piece.nbytes:
                break  # the file is shorter by now
        await self._writer.drain()
        if place < claimed and with_body:
            self.cut()


def _write_whole(writer: asyncio.StreamWriter, answer: Answer) -> None:
    writer.write(build_head(answer.status, answer.headers, len(answer.body)) + answer.body)
