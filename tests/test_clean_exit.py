"""Scripts that end right after their last await must not abort: shown by many short processes.

`ALANCE_EXIT_PROCESSES` says how many in all (`make exit-test`). Without the hook of
`alance.io.exit`, up to one in five of these scripts ends with SIGABRT.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import anyio
import pyarrow as pa
import pytest

import alance
from alance.io.client import StoreClients
from alance.limits import Limits
from alance.testing.s3 import S3Server

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PROCESSES = int(os.environ.get("ALANCE_EXIT_PROCESSES", "32"))
AT_ONCE = 4

PREAMBLE = """
import asyncio, json, os, sys
import alance
import pyarrow as pa
from alance.io.client import StoreClients
from alance.limits import Limits

uri, options = json.loads(sys.argv[1])
store, folder = StoreClients(Limits()).open(uri, options)
mine = f"{folder}/{os.getpid()}"
"""

SCRIPTS = {
    "read": """
async def main():
    dataset = await alance.open_dataset(f"{uri}/dataset", storage_options=options)
    assert (await dataset.take([2, 0])).to_pydict() == {"x": [7, 5]}
    async for batch in dataset.scan(["x"], filter="x > 5"):
        break

asyncio.run(main())
""",
    "write": """
table = pa.table({"x": list(range(50_000))})
asyncio.run(alance.write_dataset(table, f"{uri}/{os.getpid()}", storage_options=options))
""",
    "failed create": """
async def main():
    table = pa.table({"x": [1]})
    try:
        await alance.write_dataset(table, f"{uri}/dataset", storage_options=options)
    except alance.DatasetAlreadyExistsError:
        return
    sys.exit("created what exists")

asyncio.run(main())
""",
    "without await": """
dataset = alance.sync.open_dataset(f"{uri}/dataset", storage_options=options)
assert dataset.to_reader().read_all().num_rows == dataset.count_rows("x > 0")
""",
    "cancelled read": """
async def main():
    async with asyncio.TaskGroup() as tg:
        tasks = [tg.create_task(store.head(f"{folder}/x")) for _ in range(8)]
        for _ in range(os.getpid() % 10):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()

asyncio.run(main())
""",
    "many at once": """
async def main():
    async with asyncio.TaskGroup() as tg:
        for _ in range(20):
            tg.create_task(store.head(f"{folder}/x"))

asyncio.run(main())
""",
    "aborted upload": """
async def main():
    upload = await store.open_upload(mine)
    await upload.write(bytes(9 << 20))
    await upload.abort()

asyncio.run(main())
""",
    "forked child": """
asyncio.run(store.head(f"{folder}/x"))
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
}


RUNS = -(-PROCESSES // (2 * len(SCRIPTS)))
"""Processes per script and store."""


def run(script: str, place: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + script, place],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URI and options of a folder with an object `x`, for the command line of a script."""
    uri, options = str(tmp_path), None
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        uri, options = "s3://bucket/exit", server.storage_options
    store, folder = StoreClients(Limits()).open(uri, options)
    anyio.run(store.put, f"{folder}/x", b"hello world")
    rows = pa.table({"x": [5, 6, 7]})
    alance.sync.write_dataset(rows, f"{uri}/dataset", mode="overwrite", storage_options=options)
    return json.dumps([uri, options])


@pytest.mark.parametrize("name", SCRIPTS)
def test_short_scripts_end_cleanly(name: str, place: str) -> None:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        ends = list(threads.map(partial(run, SCRIPTS[name]), [place] * RUNS))
    assert ends == [(0, "")] * RUNS


def test_a_loop_closed_with_requests_pending(place: str) -> None:
    script = """
loop = asyncio.new_event_loop()
loop.set_exception_handler(lambda *_: None)
task = loop.create_task(store.head(f"{folder}/x"))
loop.call_soon(loop.stop)
loop.run_forever()
loop.close()
"""
    assert run(script, place)[0] == 0


def test_an_error_nobody_catches_keeps_its_exit_status(place: str) -> None:
    code, said = run('asyncio.run(store.head(f"{folder}/missing"))', place)
    assert code == 1
    assert "ObjectNotFoundError" in said.splitlines()[-1]
