"""SQL text to a syntax tree: bounded parsing, in the dialect of the reference implementation.

Identifiers are quoted with backticks. Double quotes make strings, as they do for the reference, so
`"name" = 1` compares a string with a number and is refused. A backslash in a string is a character.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import pyarrow as pa
from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from alance.errors import InvalidInputError
from alance.query.names import Name

__all__ = ["chain", "fail", "number", "only", "parse", "path", "shown"]

CHARACTERS_MAX = 1 << 20
NESTING_MAX = 40
"""Brackets within brackets, or signs in a row: sqlglot spends some 20 Python frames on each."""
DEPTH_MAX = 100
"""Operators within operators; a chain of and, or of or, counts once however long it is."""


class _Sql(Dialect):
    class Tokenizer(tokens.Tokenizer):
        QUOTES: ClassVar = ["'", '"']
        IDENTIFIERS: ClassVar = ["`"]
        STRING_ESCAPES: ClassVar = ["'", '"']
        HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'"), ("0x", "")]

    class Parser(parser.Parser):
        # A function stays a name with arguments: sqlglot's own classes, and so the names they give
        # back, change from version to version.
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar = {"CAST": parser.Parser.FUNCTION_PARSERS["CAST"]}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {}


def parse(sql: str) -> exp.Expression:
    """Syntax tree of one whole expression, at most `DEPTH_MAX` deep.

    Raises
    ------
    InvalidInputError
        The text is no expression, or too long or too deep.
    """
    if not isinstance(sql, str):
        raise InvalidInputError(f"an SQL expression must be a string, not {type(sql).__name__}")
    if len(sql) > CHARACTERS_MAX:
        raise InvalidInputError(
            f"an SQL expression of {len(sql)} characters is too long; the limit is {CHARACTERS_MAX}"
        )
    dialect = Dialect.get_or_raise(_Sql)
    try:
        sql.encode()  # half a surrogate pair is no text that a column could hold
        words = dialect.tokenize(sql)
        _check_nesting(sql, words)
        trees: list[Any] = list(dialect.parser().parse_into(exp.Condition, words, sql))
    except ParseError as exc:
        raise InvalidInputError(_parse_failure(sql, exc)) from exc
    except (SqlglotError, ValueError) as exc:
        reason = str(exc).partition("\n")[0]
        raise InvalidInputError(f"SQL expression {shown(sql)} does not parse: {reason}") from exc
    if len(trees) != 1 or trees[0] is None:
        found = "is empty" if not any(trees) else "is more than one expression"
        raise InvalidInputError(f"SQL expression {shown(sql)} {found}")
    tree: exp.Expression = trees[0]
    _check_depth(sql, tree)
    return tree


def _parse_failure(sql: str, exc: ParseError) -> str:
    message = f"SQL expression {shown(sql)} does not parse"
    if not exc.errors:
        return f"{message}: {str(exc).partition(chr(10))[0]}"
    error = exc.errors[0]
    found = f", at {error['highlight']!r}" if error.get("highlight") else ""
    return f"{message}: line {error['line']}, column {error['col']}{found}"


_OPENING = {"L_PAREN", "L_BRACKET", "L_BRACE"}
_CLOSING = {"R_PAREN", "R_BRACKET", "R_BRACE"}
_PREFIXES = {"NOT", "DASH", "PLUS", "TILDE"}


def _check_nesting(sql: str, words: Sequence[Any]) -> None:
    """Bound the recursion of the parser before it runs."""
    depth = run = 0
    for word in words:
        sign = word.token_type.name
        depth += (sign in _OPENING) - (sign in _CLOSING)
        run = run + 1 if sign in _PREFIXES else 0
        if max(depth, run) > NESTING_MAX:
            raise InvalidInputError(
                f"SQL expression {shown(sql)} is nested more than {NESTING_MAX} deep; simplify it"
            )


def _check_depth(sql: str, tree: exp.Expression) -> None:
    """Bound the recursion of all that walks the tree."""
    todo: list[tuple[Any, int]] = [(tree, 1)]
    while todo:
        node, depth = todo.pop()
        if depth > DEPTH_MAX:
            raise InvalidInputError(
                f"SQL expression {shown(sql)} has more than {DEPTH_MAX} operators within one "
                "another; simplify it"
            )
        for child in node.iter_expressions():
            chained = type(child) is type(node) and isinstance(node, exp.And | exp.Or)
            todo.append((child, depth if chained else depth + 1))


def shown(sql: str) -> str:
    """Text quoted for a message, shortened."""
    return repr(sql if len(sql) <= 120 else f"{sql[:117]}...")


def fail(node: exp.Expression, reason: str) -> NoReturn:
    """Raise InvalidInputError with the reason and the text of the node."""
    raise InvalidInputError(f"{reason}; in SQL: {shown(node.sql(dialect=_Sql))}")


def only(node: exp.Expression, *names: str) -> None:
    """Refuse options of a construct other than `names`, which would be ignored otherwise."""
    for name, value in node.args.items():
        if value and name not in names:
            fail(node, f"option {name!r} of {type(node).__name__} is not supported")


def chain(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """Operands of a chain such as `a and b and c`, left to right; without recursion."""
    operands: list[exp.Expression] = []
    todo = [node]
    while todo:
        top = todo.pop()
        if type(top) is kind:
            todo += [top.args["expression"], top.this]
        else:
            operands.append(top)
    return operands


def path(node: exp.Expression) -> list[Name]:
    """Names of a column and the fields within it: `a.b`, `a['b']`, mixed."""
    if isinstance(node, exp.Column):
        parts = [node.args.get(part) for part in ("catalog", "db", "table", "this")]
        return [_name(node, part) for part in parts if part is not None]
    if isinstance(node, exp.Dot):
        return [*path(node.this), _name(node, node.expression)]
    if isinstance(node, exp.Bracket):
        keys = node.expressions
        if len(keys) == 1 and isinstance(keys[0], exp.Literal) and keys[0].is_string:
            return [*path(node.this), (keys[0].name, True)]
        fail(node, "brackets take the name of a struct field, a single string")
    fail(node, "this is not the name of a column")


def _name(node: exp.Expression, part: exp.Expression) -> Name:
    if not isinstance(part, exp.Identifier):
        fail(node, "this is not the name of a column")
    return part.name, bool(part.args.get("quoted"))


def number(node: exp.Expression, text: str) -> pa.Scalar:
    """Value of a number literal: int64, uint64 if greater, else float64."""
    try:
        if text.removeprefix("-").isdigit():
            value = int(text)
            if -(1 << 63) <= value < 1 << 64:
                return pa.scalar(value, pa.int64() if value < 1 << 63 else pa.uint64())
        real = float(text)
    except ValueError:
        fail(node, f"{shown(text)} is not a number")
    if not math.isfinite(real):
        fail(node, f"{shown(text)} is beyond the range of numbers")
    return pa.scalar(real)
