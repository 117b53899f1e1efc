"""As much HTTP/1.1 as the endpoint needs: over streams, so that every byte on the wire is ours."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

__all__ = ["Answer", "BadRequestError", "HttpRequest", "build_head", "read_request"]

HEAD_BYTES_MAX = 64 << 10
REASONS = {
    200: "OK", 204: "No Content", 206: "Partial Content", 304: "Not Modified", 400: "Bad Request",
    403: "Forbidden", 404: "Not Found", 409: "Conflict", 412: "Precondition Failed",
    416: "Range Not Satisfiable", 429: "Too Many Requests", 500: "Internal Server Error",
    501: "Not Implemented", 503: "Service Unavailable",
}  # fmt: skip


class BadRequestError(Exception):
    """The client sent what this server does not speak."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request with its whole body.

    Parameters
    ----------
    method
        In capitals.
    path
        Decoded, with the leading slash.
    query
        Decoded; a name without a value has an empty one.
    headers
        Names in lower case.
    body
        Empty when there is none.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose body is here already.

    Parameters
    ----------
    status
        Of HTTP.
    body
        Not sent in answer to HEAD, but its length is.
    headers
        Without the length.
    """

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Length of the body."""
        return len(self.body)

    def read(self, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of the body."""
        return memoryview(self.body)[start:stop]


async def read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> HttpRequest | None:
    """Read the next request of a connection; None when the client has closed it in between.

    Raises
    ------
    BadRequestError
        It is none, or its body has an encoding of its own.
    IncompleteReadError
        The connection closed in the middle.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as exc:
        if exc.partial:
            raise
        return None
    except asyncio.LimitOverrunError as exc:
        raise BadRequestError(f"a head of more than {HEAD_BYTES_MAX} bytes") from exc
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    try:
        method, target, _ = first.split(" ")
    except ValueError as exc:
        raise BadRequestError(f"{first!r} is no request") from exc
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if "transfer-encoding" in headers or "x-amz-decoded-content-length" in headers:
        raise BadRequestError("bodies in chunks are not read here")
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    path, _, query = target.partition("?")
    return HttpRequest(
        method, unquote(path), dict(parse_qsl(query, keep_blank_values=True)), headers, body
    )


def build_head(status: int, headers: dict[str, str], num_bytes: int) -> bytes:
    """Status line and headers of an answer with a body of so many bytes."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if status != 204:
        lines.append(f"content-length: {num_bytes}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
