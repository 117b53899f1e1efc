"""An S3 endpoint of our own on this machine: far away, narrow or faulty, as a test wants it.

Other than a mock it counts every byte that leaves it, those of aborted answers included. In a
process of its own (`python -m alance.testing.endpoint`) it is fast enough to be measured against.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from alance.testing.endpoint.faults import Fault, FaultKind
from alance.testing.endpoint.objects import Directory, Memory, Objects
from alance.testing.endpoint.s3 import S3
from alance.testing.endpoint.server import CONTROL, Counters, Exchange, Server, Settings
from alance.testing.s3 import S3Server

__all__ = [
    "Counters",
    "EndpointProcess",
    "EndpointThread",
    "Exchange",
    "Fault",
    "FaultKind",
    "Settings",
    "rounds",
    "start_endpoint",
    "start_endpoint_process",
]


@dataclass(frozen=True, slots=True)
class EndpointThread(S3Server):
    """An endpoint in a thread of this process; its counters can be read at any time.

    Parameters
    ----------
    endpoint
        URL of the server.
    server
        What answers there; its `counters` may be read and its `settings` changed.
    """

    server: Server

    @property
    def counters(self) -> Counters:
        """What has happened since the last reset."""
        return self.server.counters

    @property
    def objects(self) -> Objects:
        """What is stored, by bucket and key; changes are seen by the next request."""
        return self.server.s3.objects

    def reset(self, *faults: Fault) -> None:
        """Count from zero, with these faults in place of earlier ones."""
        self.server.reset(faults)


@dataclass(frozen=True, slots=True)
class EndpointProcess(S3Server):
    """An endpoint in a process of its own, asked over HTTP; that blocks, and is not counted."""

    def counters(self) -> Counters:
        """What has happened since the last reset."""
        return self._ask("counters", None)

    def reset(self, *faults: Fault) -> None:
        """Count from zero, with these faults in place of earlier ones."""
        self._ask("reset", [{**asdict(fault), "kind": fault.kind.value} for fault in faults])

    def configure(self, settings: Settings) -> None:
        """Move the server nearer or farther; for connections to come and requests to come."""
        self._ask("settings", asdict(settings))

    def _ask(self, command: str, said: object) -> Counters:
        url = f"{self.endpoint}{CONTROL}{command}"
        request = urllib.request.Request(url, json.dumps(said).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            told = json.loads(answer.read())
        return Counters(**{**told, "log": [Exchange(**one) for one in told["log"]]})


def rounds(log: Sequence[Exchange]) -> int:
    """Most requests of which each arrived after the one before had been answered.

    What a client waited for cannot be seen from here, so this counts at least the rounds there
    were; with a latency well above all other times it counts them exactly.
    """
    count, free_s = 0, float("-inf")
    for one in sorted(log, key=lambda one: one.answered_s):
        if one.arrived_s >= free_s:
            count, free_s = count + 1, one.answered_s
    return count


@contextmanager
def start_endpoint(
    root: Path | None = None,
    *,
    settings: Settings | None = None,
    honours_condition: bool = True,
) -> Generator[EndpointThread, None, None]:
    """Run an endpoint in a thread until the block ends.

    Parameters
    ----------
    root
        Directory to serve, a folder in it per bucket; None keeps objects in memory.
    settings
        Latency and bandwidth; None for none.
    honours_condition
        Whether `If-None-Match: *` refuses to replace.
    """
    objects = Memory() if root is None else Directory(root)
    server = Server(S3(objects, honours_condition=honours_condition), settings or Settings())
    with start_blocking_portal() as portal:
        port = portal.call(server.start, 0)
        try:
            yield EndpointThread(f"http://127.0.0.1:{port}", server)
        finally:
            portal.call(server.close)


@contextmanager
def start_endpoint_process(
    root: Path, *, port: int = 0, settings: Settings | None = None
) -> Generator[EndpointProcess, None, None]:
    """Run an endpoint over a directory in a process of its own until the block ends."""
    command = [sys.executable, "-m", __name__, "--root", str(root), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None, "asked for above"
            endpoint = EndpointProcess(process.stdout.readline().strip())
            endpoint.configure(settings or Settings())
            yield endpoint
        finally:
            process.terminate()
