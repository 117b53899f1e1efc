"""Compute expressions on record batches, whole columns at a time.

Each node is a direct call of a `pyarrow.compute` kernel. Not a `pyarrow.dataset` expression: those
bring their own type coercion, compare NaN by IEEE rules and round decimals, where the tree already
says every type, and they would have to be built again for each batch's schema.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from alance.errors import InvalidInputError
from alance.query import compute
from alance.query.compute import Datum
from alance.query.expression import (
    And,
    Arithmetic,
    Cast,
    Column,
    Compare,
    Expression,
    Function,
    In,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Negate,
    Not,
    Or,
)
from alance.query.functions import FUNCTIONS

__all__ = ["ARROW_ERRORS", "evaluate", "filter_mask"]

ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError)
"""What pyarrow raises for values it cannot compute with; not for lack of memory."""


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """Compute an expression for each row.

    Parameters
    ----------
    expression
        Bound to a schema in which the columns it uses have the types they have in `batch`.
    batch
        Holds at least those columns; of a struct, at least the children used.

    Returns
    -------
    pyarrow.Array
        `batch.num_rows` values of `expression.type`. A column alone is not copied.

    Raises
    ------
    InvalidInputError
        A column is not in `batch`; or a value cannot be computed: an integer division by zero, a
        cast that does not fit.
    """
    try:
        value = _compute(expression, batch)
    except ARROW_ERRORS as exc:
        reason = str(exc).partition("\n")[0]
        raise InvalidInputError(f"{_shortened(expression)} cannot be computed: {reason}") from exc
    if not isinstance(value, pa.Scalar):
        return value
    if not value.is_valid:
        return pa.nulls(batch.num_rows, value.type)
    return pa.repeat(value, batch.num_rows)


def filter_mask(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Which rows pass a filter.

    Parameters
    ----------
    expression
        Boolean; see `evaluate`.
    batch
        See `evaluate`.

    Returns
    -------
    pyarrow.BooleanArray
        `batch.num_rows` values without nulls; a row whose result is null does not pass.

    Raises
    ------
    InvalidInputError
        As `evaluate` raises it.
    """
    return pc.fill_null(evaluate(expression, batch), False)


def _shortened(expression: Expression) -> str:
    text = str(expression)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _compute(expression: Expression, batch: pa.RecordBatch) -> Datum:
    return _COMPUTE[type(expression)](expression, batch)


def _column(node: Column, batch: pa.RecordBatch) -> Datum:
    indices = batch.schema.get_all_field_indices(node.path[0])
    if len(indices) != 1:
        found = "more than once" if indices else "not"
        raise InvalidInputError(f"column {node} is {found} in this batch: {batch.schema.names}")
    column = batch.column(indices[0])
    return column if len(node.path) == 1 else pc.struct_field(column, list(node.path[1:]))


def _and(node: And, batch: pa.RecordBatch) -> Datum:
    return reduce(pc.and_kleene, (_compute(operand, batch) for operand in node.operands))


def _or(node: Or, batch: pa.RecordBatch) -> Datum:
    return reduce(pc.or_kleene, (_compute(operand, batch) for operand in node.operands))


def _compare(node: Compare, batch: pa.RecordBatch) -> Datum:
    return compute.compare(node.op, _compute(node.left, batch), _compute(node.right, batch))


def _arithmetic(node: Arithmetic, batch: pa.RecordBatch) -> Datum:
    left, right = _compute(node.left, batch), _compute(node.right, batch)
    return compute.arithmetic(node.op, left, right, node.data_type)


def _function(node: Function, batch: pa.RecordBatch) -> Datum:
    return FUNCTIONS[node.name].run(*(_compute(argument, batch) for argument in node.arguments))


_COMPUTE: dict[type[Expression], Callable[[Any, pa.RecordBatch], Datum]] = {
    Column: _column,
    Literal: lambda node, batch: node.value,
    Compare: _compare,
    And: _and,
    Or: _or,
    Not: lambda node, batch: pc.invert(_compute(node.operand, batch)),
    In: lambda node, batch: compute.is_in(
        _compute(node.operand, batch), node.values, node.has_null
    ),
    Like: lambda node, batch: compute.like(
        _compute(node.operand, batch), node.pattern, node.ignore_case
    ),
    IsNull: lambda node, batch: pc.is_null(_compute(node.operand, batch)),
    IsTrue: lambda node, batch: pc.fill_null(_compute(node.operand, batch), False),
    Arithmetic: _arithmetic,
    Negate: lambda node, batch: pc.negate(_compute(node.operand, batch)),
    Cast: lambda node, batch: compute.cast(_compute(node.operand, batch), node.data_type),
    Function: _function,
}
