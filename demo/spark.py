"""A small, quiet Spark on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

__all__ = ["open_spark"]


@contextmanager
def open_spark(directory: Path, *, attempts: int = 1) -> Iterator[SparkSession]:
    """Start Spark with two cores, and stop it.

    Parameters
    ----------
    directory
        For Spark's own temporary files.
    attempts
        How often a task may be tried.
    """
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SystemExit("Spark needs Java 17: put java on the PATH, or set JAVA_HOME")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    logging = (Path(__file__).parent / "log4j2.properties").as_uri()
    builder = SparkSession.builder.master(f"local[2, {attempts}]").appName("alance")
    for key, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
