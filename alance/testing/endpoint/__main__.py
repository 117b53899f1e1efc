"""`python -m alance.testing.endpoint --root DIR`: serve a directory until terminated."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from alance.testing.endpoint.objects import Directory
from alance.testing.endpoint.s3 import S3
from alance.testing.endpoint.server import Server, Settings


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m alance.testing.endpoint")
    parser.add_argument("--root", type=Path, required=True, help="holds one folder per bucket")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="before each answer")
    parser.add_argument(
        "--bandwidth", type=float, default=0.0, help="MB/s of one connection; 0 is not limited"
    )
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    settings = Settings(arguments.latency_ms / 1e3, arguments.bandwidth * 1e6)
    server = Server(S3(Directory(arguments.root)), settings)
    port = await server.start(arguments.port)
    sys.stdout.write(f"http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(_arguments()))
