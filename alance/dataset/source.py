"""What users hand in as data: one schema and an asynchronous stream of record batches."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from alance.errors import InvalidInputError, SchemaMismatchError
from alance.session import Session

__all__ = ["BatchSource", "Data", "open_source"]

Data: TypeAlias = Any
"""`pa.Table`, `RecordBatch`, `RecordBatchReader`, anything with `__arrow_c_stream__`, or a sync or
async iterable of `RecordBatch` (then with `schema`)."""

_END = object()


@dataclass(frozen=True, slots=True)
class BatchSource:
    """Data to be written, not read yet."""

    schema: pa.Schema
    batches: Callable[[], AsyncIterator[pa.RecordBatch]]
    """Call once. Every batch has `schema`."""


def open_source(data: Data, schema: pa.Schema | None, session: Session) -> BatchSource:
    """Recognise what was handed in; reads nothing yet.

    Raises
    ------
    InvalidInputError
        No kind of data that is known, or an iterable without `schema`.
    SchemaMismatchError
        `schema` is given and the data has another.
    """
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidInputError(f"schema must be a pyarrow Schema, not {type(schema).__name__}")
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        batches = data.to_batches()
        return BatchSource(_agreed(data.schema, schema), lambda: _in_memory(batches))
    if not isinstance(data, pa.RecordBatchReader) and hasattr(data, "__arrow_c_stream__"):
        data = pa.RecordBatchReader.from_stream(data)
    if isinstance(data, pa.RecordBatchReader):
        reader = data
        agreed = _agreed(reader.schema, schema)
        return BatchSource(agreed, lambda: _in_threads(iter(reader), agreed, session))
    if not isinstance(data, (AsyncIterable, Iterable)) or isinstance(data, (str, bytes, dict)):
        raise InvalidInputError(
            f"data of type {type(data).__name__} cannot be written; give a pyarrow Table, "
            "RecordBatch or RecordBatchReader, an object with __arrow_c_stream__, or an iterable "
            "of RecordBatch together with schema="
        )
    if schema is None:
        raise InvalidInputError("an iterable of record batches needs schema= beside it")
    wanted, iterable = schema, data
    if isinstance(iterable, AsyncIterable):
        return BatchSource(wanted, lambda: _checked(iterable, wanted))
    return BatchSource(wanted, lambda: _in_threads(iter(iterable), wanted, session))


def _agreed(found: pa.Schema, given: pa.Schema | None) -> pa.Schema:
    if given is not None and not found.equals(given):
        raise SchemaMismatchError(f"schema= says\n{given}\nbut the data has\n{found}")
    return found


async def _in_memory(batches: list[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    for batch in batches:
        yield batch


async def _checked(
    batches: AsyncIterable[pa.RecordBatch], schema: pa.Schema
) -> AsyncIterator[pa.RecordBatch]:
    async for batch in batches:
        yield _check(batch, schema)


async def _in_threads(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, session: Session
) -> AsyncIterator[pa.RecordBatch]:
    """Pull in a thread: the producer may block on files or sockets of its own."""
    while True:
        batch = await session.run_in_thread(lambda: next(batches, _END))
        if batch is _END:
            return
        yield _check(batch, schema)


def _check(batch: object, schema: pa.Schema) -> pa.RecordBatch:
    if not isinstance(batch, pa.RecordBatch):
        raise InvalidInputError(f"the data yields {type(batch).__name__}, not RecordBatch")
    if not batch.schema.equals(schema):
        raise SchemaMismatchError(
            f"a batch of the data has the schema\n{batch.schema}\nbut was announced as\n{schema}"
        )
    return batch
