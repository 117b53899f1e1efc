"""Lance datasets as Spark DataFrames, and back: `write` and `read`."""

from alance.spark.reader import read
from alance.spark.writer import write

__all__ = ["read", "write"]

for _name in __all__:
    globals()[_name].__module__ = __name__
del _name
