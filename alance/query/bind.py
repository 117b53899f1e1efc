"""Syntax tree to typed expression: names resolved, types checked, constants fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from alance.query import compute
from alance.query.evaluate import evaluate
from alance.query.expression import (
    And,
    Arithmetic,
    ArithmeticOp,
    Cast,
    Compare,
    CompareOp,
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
from alance.query.literals import fit, parse_temporal
from alance.query.names import resolve_column, resolve_type
from alance.query.syntax import chain, fail, number, only, path
from alance.query.types import Kind, arithmetic_types, can_cast, common_type, kind_of, value_type

__all__ = ["Binder"]

_COMPARISONS: dict[type[exp.Expression], CompareOp] = {
    exp.EQ: CompareOp.EQ,
    exp.NEQ: CompareOp.NE,
    exp.LT: CompareOp.LT,
    exp.LTE: CompareOp.LE,
    exp.GT: CompareOp.GT,
    exp.GTE: CompareOp.GE,
}
_ARITHMETIC: dict[type[exp.Expression], ArithmeticOp] = {
    exp.Add: ArithmeticOp.ADD,
    exp.Sub: ArithmeticOp.SUBTRACT,
    exp.Mul: ArithmeticOp.MULTIPLY,
    exp.Div: ArithmeticOp.DIVIDE,
    exp.Mod: ArithmeticOp.MODULO,
}
_NUMBERS = {Kind.INT, Kind.FLOAT, Kind.DECIMAL}
_ONE_ROW = pa.record_batch([pa.nulls(1)], names=[""])


class Binder:
    """Binds syntax trees to one schema.

    Parameters
    ----------
    schema
        Columns that names may mean.
    literals_adapt
        A number literal in arithmetic takes the other side's type where that holds it.
    """

    def __init__(self, schema: pa.Schema, *, literals_adapt: bool) -> None:
        self._schema = schema
        self._literals_adapt = literals_adapt

    def bind(self, node: exp.Expression) -> Expression:
        """Typed expression of a syntax tree of bounded depth.

        Raises
        ------
        InvalidInputError
            A construct or name that is not known, or types that do not fit together.
        """
        bind = _BIND.get(type(node))
        if bind is None:
            fail(node, f"{type(node).__name__} is not supported in SQL expressions")
        return bind(self, node)

    def _operand(self, node: exp.Expression) -> Expression:
        """Expression in the type that its values are computed in."""
        expression = self.bind(node)
        return _converted(expression, value_type(expression.type))

    def _boolean(self, node: exp.Expression) -> Expression:
        operand = self._operand(node)
        if kind_of(operand.type) is Kind.NULL:
            return _converted(operand, pa.bool_())
        if kind_of(operand.type) is not Kind.BOOL:
            fail(node, f"a condition must be boolean, not {operand.type}")
        return operand

    # Names and constants

    def _paren(self, node: exp.Expression) -> Expression:
        return self.bind(node.this)

    def _path(self, node: exp.Expression) -> Expression:
        return resolve_column(self._schema, path(node))

    def _literal(self, node: exp.Expression) -> Expression:
        if node.is_string:
            return Literal(pa.scalar(node.name))
        return Literal(number(node, node.name))

    def _hex(self, node: exp.Expression) -> Expression:
        digits = node.name
        try:
            return Literal(pa.scalar(bytes.fromhex(digits)))
        except ValueError:
            fail(node, f"{digits!r} is not pairs of hexadecimal digits")

    # Conditions

    def _comparison(self, node: exp.Expression) -> Expression:
        op = _COMPARISONS[type(node)]
        return _compared(node, op, self._operand(node.this), self._operand(node.expression))

    def _connection(self, node: exp.Expression) -> Expression:
        kind = type(node)
        operands = tuple(self._boolean(operand) for operand in chain(node, kind))
        flat: list[Expression] = []
        result = And if kind is exp.And else Or
        for operand in operands:
            flat.extend(operand.operands if isinstance(operand, result) else [operand])
        return result(tuple(flat))

    def _negation(self, node: exp.Expression) -> Expression:
        return Not(self._boolean(node.this))

    def _between(self, node: exp.Expression) -> Expression:
        only(node, "this", "low", "high")
        operand = self._operand(node.this)
        low = _compared(node, CompareOp.GE, operand, self._operand(node.args["low"]))
        high = _compared(node, CompareOp.LE, operand, self._operand(node.args["high"]))
        return And((low, high))

    def _membership(self, node: exp.Expression) -> Expression:
        only(node, "this", "expressions")
        if not node.expressions:
            fail(node, "a list after IN needs at least one value")
        operand = self._operand(node.this)
        items = [self._operand(item) for item in node.expressions]
        if isinstance(operand, Literal) or not all(isinstance(item, Literal) for item in items):
            equal = [_compared(node, CompareOp.EQ, operand, item) for item in items]
            return equal[0] if len(equal) == 1 else Or(tuple(equal))
        values: list[pa.Scalar] = []
        for item in items:
            found = _compared(node, CompareOp.EQ, operand, item)
            assert isinstance(found, Compare)
            assert isinstance(found.right, Literal)
            if found.op is CompareOp.EQ:  # otherwise it equals no value of the operand's type
                values.append(found.right.value)
        known = [value for value in values if value.is_valid]
        return In(operand, pa.array(known, operand.type), len(known) < len(values))

    def _like(self, node: exp.Expression, escape: str = "\\") -> Expression:
        only(node, "this", "expression", "negate")
        operand = self._operand(node.this)
        pattern = self._operand(node.expression)
        if not isinstance(pattern, Literal):
            fail(node, "the pattern of LIKE must be a string constant")
        for side in (operand, pattern):
            if kind_of(side.type) not in {Kind.STRING, Kind.NULL}:
                fail(node, f"LIKE takes strings, not {side.type}")
        if not pattern.value.is_valid or kind_of(operand.type) is Kind.NULL:
            return Literal(pa.scalar(None, pa.bool_()))
        text = _with_backslash(pattern.value.as_py(), escape)
        match = Like(operand, text, isinstance(node, exp.ILike))
        return Not(match) if node.args.get("negate") else match

    def _escape(self, node: exp.Expression) -> Expression:
        sign = node.expression
        if not isinstance(node.this, exp.Like | exp.ILike) or not sign.is_string:
            fail(node, "ESCAPE takes a string and belongs to LIKE")
        if len(sign.name) != 1:
            fail(node, f"ESCAPE takes one character, not {sign.name!r}")
        return self._like(node.this, sign.name)

    def _is(self, node: exp.Expression) -> Expression:
        only(node, "this", "expression")
        if isinstance(node.expression, exp.Null):
            return IsNull(self.bind(node.this))
        if not isinstance(node.expression, exp.Boolean):
            fail(node, "IS takes null, true or false")
        operand = self._boolean(node.this)
        return IsTrue(operand if node.expression.this else Not(operand))

    def _distinct(self, node: exp.Expression) -> Expression:
        left, right = self._operand(node.this), self._operand(node.expression)
        both_null = And((IsNull(left), IsNull(right)))
        equal = _compared(node, CompareOp.EQ, left, right)
        same = Or((both_null, IsTrue(equal)))
        return same if isinstance(node, exp.NullSafeEQ) else Not(same)

    # Computation

    def _arithmetic(self, node: exp.Expression) -> Expression:
        op = _ARITHMETIC[type(node)]
        left, right = self._operand(node.this), self._operand(node.expression)
        if self._literals_adapt:
            left, right = _adapted(left, right.type), _adapted(right, left.type)
        types = arithmetic_types(op, left.type, right.type)
        if types is None:
            fail(node, f"{left.type} {op.value} {right.type} is not defined; use cast()")
        left, right = _converted(left, types[0]), _converted(right, types[1])
        return _folded(Arithmetic(op, left, right, types[2]))

    def _minus(self, node: exp.Expression) -> Expression:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return Literal(number(node, f"-{node.this.name}"))
        operand = self._operand(node.this)
        if kind_of(operand.type) is Kind.NULL:
            return operand
        unsigned = pa.types.is_unsigned_integer(operand.type)
        if unsigned or kind_of(operand.type) not in _NUMBERS:
            fail(node, f"a value of type {operand.type} cannot be negated")
        return _folded(Negate(operand))

    def _cast(self, node: exp.Expression) -> Expression:
        only(node, "this", "to")
        target = resolve_type(node.args["to"])
        if target is None:
            fail(node, "this is not a type to cast to")
        operand = self._operand(node.this)
        if isinstance(operand, Literal) and kind_of(operand.type) is Kind.STRING:
            parsed = _temporal(node, operand.value, target)
            if parsed is not None:
                return Literal(parsed)
        if not can_cast(operand.type, target):
            fail(node, f"a cast from {operand.type} to {target} is not defined")
        return _converted(operand, target)

    def _function(self, node: exp.Expression) -> Expression:
        return self._call(node, node.name.lower(), node.expressions)

    def _concatenation(self, node: exp.Expression) -> Expression:
        return self._call(node, "||", [node.this, node.expression])

    def _call(self, node: exp.Expression, name: str, nodes: Sequence[exp.Expression]) -> Expression:
        function = FUNCTIONS.get(name)
        if function is None:
            fail(node, f"there is no function {name!r}; known are {', '.join(sorted(FUNCTIONS))}")
        least, most = function.num_arguments
        if not least <= len(nodes) <= most:
            fail(node, f"{name} takes {function.takes}, not {len(nodes)} arguments")
        arguments = [self._operand(argument) for argument in nodes]
        signature = function.sign([argument.type for argument in arguments])
        if signature is None:
            found = ", ".join(str(argument.type) for argument in arguments)
            fail(node, f"{name} takes {function.takes}, not {found}")
        types, result = signature
        for argument in arguments[function.constants :] if function.constants else ():
            if not isinstance(argument, Literal):
                fail(node, f"{name} takes {function.takes}; {argument} is no constant")
            if not argument.value.is_valid:
                return Literal(pa.scalar(None, result))
        converted = tuple(map(_converted, arguments, types))
        if function.constants:
            # A pattern that does not compile is refused now, not with the first batch.
            nothing = Literal(pa.scalar(None, types[0]))
            evaluate(Function(name, (nothing, *converted[1:]), result), _ONE_ROW)
        return _folded(Function(name, converted, result))


def _converted(expression: Expression, target: pa.DataType) -> Expression:
    return expression if expression.type == target else _folded(Cast(expression, target))


def _folded(expression: Expression) -> Expression:
    """Constant of an expression whose operands are constants: its errors come now, not later."""
    if all(isinstance(child, Literal) for child in expression.children):
        return Literal(evaluate(expression, _ONE_ROW)[0])
    return expression


def _adapted(expression: Expression, other: pa.DataType) -> Expression:
    """Number literal in the other side's type, if that holds it; a real number only in floats."""
    if not isinstance(expression, Literal) or not expression.value.is_valid:
        return expression
    kinds = (kind_of(expression.type), kind_of(other))
    whole = kinds[0] is Kind.INT and kinds[1] in _NUMBERS
    if whole or kinds == (Kind.FLOAT, Kind.FLOAT):
        fitted = fit(CompareOp.EQ, other, expression.value)
        if fitted is not None and fitted[0] is CompareOp.EQ:
            return Literal(fitted[1])
    return expression


def _compared(node: exp.Expression, op: CompareOp, left: Expression, right: Expression) -> Compare:
    """Comparison in normal form: a constant on the right, both sides of one type."""
    if isinstance(left, Literal) and not isinstance(right, Literal):
        op, left, right = op.mirrored, right, left
    if kind_of(left.type) is Kind.NULL:
        left = _converted(left, right.type)
    if isinstance(right, Literal):
        fitted = fit(op, left.type, right.value)
        if fitted is not None:
            return Compare(fitted[0], left, Literal(fitted[1]))
    common = common_type(left.type, right.type)
    if isinstance(right, Literal) or common is None:
        fail(node, f"{left.type} cannot be compared with {_described(right)}")
    return Compare(op, _converted(left, common), _converted(right, common))


def _described(expression: Expression) -> str:
    if isinstance(expression, Literal):
        return f"the constant {expression} of type {expression.type}"
    return str(expression.type)


def _temporal(node: exp.Expression, text: pa.Scalar, target: pa.DataType) -> pa.Scalar | None:
    """Constant of `date '...'` and `timestamp '...'`; None where the target is neither.

    A timestamp with an offset stays an instant, whether or not the target has a zone.
    """
    kind = kind_of(target)
    if kind not in {Kind.DATE, Kind.TIMESTAMP} or not text.is_valid:
        return None
    parsed = parse_temporal(text.as_py(), kind)
    if parsed is None:
        fail(node, f"{text.as_py()!r} is not a {kind.name.lower()}, as 2013-01-31T10:00:00 is")
    if kind is Kind.DATE or parsed.type.unit == target.unit:
        return parsed
    precision = node.args["to"].expressions
    unit = target.unit if precision else parsed.type.unit
    return compute.cast(parsed, pa.timestamp(unit, parsed.type.tz))


def _with_backslash(pattern: str, escape: str) -> str:
    """Pattern whose escape character is the backslash."""
    if escape == "\\":
        return pattern
    result: list[str] = []
    signs = iter(pattern)
    for sign in signs:
        if sign == escape:
            sign = next(signs, escape)
            result.append("\\" + sign)
        else:
            result.append("\\\\" if sign == "\\" else sign)
    return "".join(result)


_BIND: dict[type[exp.Expression], Callable[[Binder, Any], Expression]] = {
    exp.And: Binder._connection,
    exp.Between: Binder._between,
    exp.Boolean: lambda binder, node: Literal(pa.scalar(bool(node.this))),
    exp.Bracket: Binder._path,
    exp.Cast: Binder._cast,
    exp.Anonymous: Binder._function,
    exp.Column: Binder._path,
    exp.DPipe: Binder._concatenation,
    exp.Dot: Binder._path,
    exp.Escape: Binder._escape,
    exp.HexString: Binder._hex,
    exp.ILike: Binder._like,
    exp.In: Binder._membership,
    exp.Is: Binder._is,
    exp.Like: Binder._like,
    exp.Literal: Binder._literal,
    exp.Neg: Binder._minus,
    exp.Not: Binder._negation,
    exp.Null: lambda binder, node: Literal(pa.scalar(None)),
    exp.NullSafeEQ: Binder._distinct,
    exp.NullSafeNEQ: Binder._distinct,
    exp.Or: Binder._connection,
    exp.Paren: Binder._paren,
    **dict.fromkeys(_ARITHMETIC, Binder._arithmetic),
    **dict.fromkeys(_COMPARISONS, Binder._comparison),
}
