"""Object storage, alance and pylance side by side in one run on the same data.

An S3 endpoint in a process of its own answers with added latency and counts what it is asked. Each
row is one job, done in turns by alance on the dataset that alance wrote (A), by alance on the one
that pylance wrote (P), and by pylance on its own. Times are medians; `A` and `P` beside them are
pylance's time over alance's: above 1, alance is faster. Then requests, rounds (requests that had to
wait for one another, as the endpoint saw them) and bytes that were sent, each for the three.
"""

from __future__ import annotations

from benchmarks.remote.run import bench_remote

__all__ = ["bench_remote"]
