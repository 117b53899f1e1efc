"""Typed expressions: the tree that a parsed and bound SQL string becomes.

Values only: nothing here computes. `alance.query.parser` builds trees whose types fit together, and
`alance.query.evaluate` computes them. Pruning code may rely on the normal form of a comparison with
a constant: the constant stands on the right and has the left side's type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

__all__ = [
    "And",
    "Arithmetic",
    "ArithmeticOp",
    "Cast",
    "Column",
    "Compare",
    "CompareOp",
    "Expression",
    "Function",
    "In",
    "IsNull",
    "IsTrue",
    "Like",
    "Literal",
    "Negate",
    "Not",
    "Or",
]


class CompareOp(Enum):
    """A comparison, by its SQL sign. NaN equals NaN and is greater than all other numbers."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def mirrored(self) -> CompareOp:
        """The comparison that holds when the sides are swapped."""
        swapped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        return CompareOp(swapped.get(self.value, self.value))


class ArithmeticOp(Enum):
    """An arithmetic operation, by its SQL sign. Integer division truncates towards zero."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"


class Expression(ABC):
    """One node of the tree; `str()` gives SQL-like text for messages and plans."""

    __slots__ = ()

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the result; boolean unless the node says otherwise."""
        return pa.bool_()

    @property
    @abstractmethod
    def children(self) -> tuple[Expression, ...]:
        """Operands, left to right."""

    def columns(self) -> tuple[tuple[str, ...], ...]:
        """Paths of the columns needed to compute this, each once, in order of first use."""
        found: dict[tuple[str, ...], None] = {}
        todo: list[Expression] = [self]
        while todo:
            node = todo.pop()
            if isinstance(node, Column):
                found[node.path] = None
            todo.extend(reversed(node.children))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A field of the schema; `path` leads through struct fields. Null where any parent is null."""

    path: tuple[str, ...]
    data_type: pa.DataType

    @property
    def type(self) -> pa.DataType:
        """Type of the field."""
        return self.data_type

    @property
    def children(self) -> tuple[Expression, ...]:
        """None."""
        return ()

    def __str__(self) -> str:
        return ".".join(name if name.isidentifier() else f"`{name}`" for name in self.path)


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant, possibly null."""

    value: pa.Scalar

    @property
    def type(self) -> pa.DataType:
        """Type of the constant."""
        return self.value.type

    @property
    def children(self) -> tuple[Expression, ...]:
        """None."""
        return ()

    def __str__(self) -> str:
        if not self.value.is_valid:
            return "null"
        if pa.types.is_string(self.type) or pa.types.is_large_string(self.type):
            return "'" + str(self.value).replace("'", "''") + "'"
        if pa.types.is_date(self.type) or pa.types.is_time(self.type):
            return f"'{self.value.cast(pa.string())}'"
        if pa.types.is_timestamp(self.type):
            # Arrow's text, in UTC: it has no limit on the year, and needs no zone's rules.
            naive = self.value.cast(pa.timestamp(self.type.unit))
            return f"'{naive.cast(pa.string())}{'Z' if self.type.tz else ''}'"
        if pa.types.is_binary(self.type) or pa.types.is_large_binary(self.type):
            return f"X'{self.value.as_py().hex()}'"
        return str(self.value).lower() if pa.types.is_boolean(self.type) else str(self.value)


@dataclass(frozen=True, slots=True)
class Compare(Expression):
    """A comparison of two operands of the same type; null where either is null."""

    op: CompareOp
    left: Expression
    right: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        """Both sides."""
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"({self.left} {self.op.value} {self.right})"


@dataclass(frozen=True, slots=True)
class And(Expression):
    """Kleene conjunction of two or more operands, none of them an `And`."""

    operands: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """All operands."""
        return self.operands

    def __str__(self) -> str:
        return "(" + " and ".join(map(str, self.operands)) + ")"


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """Kleene disjunction of two or more operands, none of them an `Or`."""

    operands: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """All operands."""
        return self.operands

    def __str__(self) -> str:
        return "(" + " or ".join(map(str, self.operands)) + ")"


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """Negation; null stays null."""

    operand: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)

    def __str__(self) -> str:
        return f"(not {self.operand})"


@dataclass(frozen=True, slots=True)
class In(Expression):
    """Membership in a list of constants.

    Null where the operand is null, and where it is not among `values` while the list had a null.

    Parameters
    ----------
    operand
        Any expression.
    values
        Array of the operand's type, without nulls; may be empty.
    has_null
        The list had a null beside `values`.
    """

    operand: Expression
    values: pa.Array = field(hash=False)
    has_null: bool

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)

    def __str__(self) -> str:
        shown = [str(Literal(value)) for value in self.values[:10]]
        if len(self.values) > 10:
            shown.append(f"... {len(self.values) - 10} more")
        return f"({self.operand} in ({', '.join(shown + ['null'] * self.has_null)}))"


@dataclass(frozen=True, slots=True)
class Like(Expression):
    r"""Match of a whole string: `%` is any run of characters, `_` is any one, `\` escapes."""

    operand: Expression
    pattern: str
    ignore_case: bool

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)

    def __str__(self) -> str:
        pattern = Literal(pa.scalar(self.pattern))
        return f"({self.operand} {'ilike' if self.ignore_case else 'like'} {pattern})"


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """Whether the operand is null; never null itself. The operand may have any type."""

    operand: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)

    def __str__(self) -> str:
        return f"({self.operand} is null)"


@dataclass(frozen=True, slots=True)
class IsTrue(Expression):
    """Whether a boolean operand is true; never null itself."""

    operand: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)

    def __str__(self) -> str:
        return f"({self.operand} is true)"


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """An operation on two numbers.

    Integer sums, differences and products wrap around at the ends of `data_type`, as in the
    reference implementation; a division by an integer or decimal zero fails when computed.
    """

    op: ArithmeticOp
    left: Expression
    right: Expression
    data_type: pa.DataType

    @property
    def type(self) -> pa.DataType:
        """Type of the result."""
        return self.data_type

    @property
    def children(self) -> tuple[Expression, ...]:
        """Both sides."""
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"({self.left} {self.op.value} {self.right})"


@dataclass(frozen=True, slots=True)
class Negate(Expression):
    """Change of sign, in the operand's type."""

    operand: Expression

    @property
    def type(self) -> pa.DataType:
        """The operand's type."""
        return self.operand.type

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)

    def __str__(self) -> str:
        return f"(-{self.operand})"


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """Conversion; a value that `data_type` cannot hold fails when computed."""

    operand: Expression
    data_type: pa.DataType

    @property
    def type(self) -> pa.DataType:
        """Type converted to."""
        return self.data_type

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)

    def __str__(self) -> str:
        return f"cast({self.operand} as {self.data_type})"


@dataclass(frozen=True, slots=True)
class Function(Expression):
    """A call of one of `alance.query.functions`, its arguments already of the right types."""

    name: str
    arguments: tuple[Expression, ...]
    data_type: pa.DataType

    @property
    def type(self) -> pa.DataType:
        """Type of the result."""
        return self.data_type

    @property
    def children(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"
