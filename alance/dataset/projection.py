"""What a read returns, and what it must fetch for that: columns, expressions, filter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.dataset.json_values import read_json
from alance.dataset.row_columns import PSEUDO_COLUMNS, ROW_ADDRESS, ROW_ID
from alance.encodings.assemble import LeafCounts, items_per_row
from alance.errors import InvalidInputError, UnsupportedFeatureError
from alance.file.schema import Leaf, Nesting, Schema
from alance.file.storable import lies_in_lists
from alance.types import FileVersion

if TYPE_CHECKING:
    from alance.query import Expression

# SQL is imported where it is needed: its parser and Arrow's functions take as long to load as all
# else, and many programs only read columns.

__all__ = [
    "Columns",
    "FilterPlan",
    "LeafPlan",
    "Projection",
    "RootPlan",
    "blob_ids",
    "name_list",
    "row_bytes_min",
]

Columns = Sequence[str] | Mapping[str, str] | None
"""Names, dotted for nested fields; or output name -> SQL expression; None for all columns."""

OFFSET_BYTES = 4
_SEPARATOR = re.compile(r"`\.`")
"""Between the parts of a quoted path, which hold no backtick themselves."""


@dataclass(frozen=True, slots=True)
class LeafPlan:
    """A leaf to read: its field id and the Arrow types from its top-level field down to it."""

    field_id: int
    chain: tuple[pa.DataType, ...]
    is_blob_v2: bool = False
    """Whether its pages hold blob descriptors."""

    @property
    def items_per_row(self) -> int:
        """How often pages count each row; see `alance.encodings.assemble.items_per_row`."""
        return items_per_row(self.chain)


@dataclass(frozen=True, slots=True)
class RootPlan:
    """A top-level field to read, with those of its leaves that are wanted."""

    name: str
    kind: pa.DataType
    """Without extension types."""
    leaves: tuple[LeafPlan, ...]
    counts: LeafCounts


@dataclass(frozen=True, slots=True)
class FilterPlan:
    """What must be read to tell which rows pass a filter, and what then of those that do."""

    predicate: Expression
    roots: tuple[RootPlan, ...]
    """Fields that the filter names."""
    pseudo: tuple[str, ...]
    """Pseudo columns that it names."""
    rest: tuple[RootPlan, ...]
    """Fields that the result needs besides them; a struct of which the filter read a member may be
    among both."""
    schema: pa.Schema
    """Of `roots` and `pseudo`."""

    def apply(
        self, arrays: Sequence[pa.Array], num_rows: int
    ) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """Which rows pass, and what was read of those that do.

        Parameters
        ----------
        arrays
            One for each of `roots`, then one for each of `pseudo`, all `num_rows` long.
        num_rows
            Rows read.
        """
        from alance.query import filter_mask

        batch = _batch(arrays, self.schema, num_rows)
        mask = filter_mask(self.predicate, batch)
        return mask, batch if mask.true_count == num_rows else batch.filter(mask)


@dataclass(frozen=True, slots=True)
class _Output:
    """One column of the result: a path to take out of what was read, or an expression."""

    field: pa.Field
    path: tuple[str, ...]
    expression: Expression | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """Columns of a result, the filter that rows must pass, and the fields to read for both."""

    schema: pa.Schema
    """Of the result."""
    roots: tuple[RootPlan, ...]
    leaves: Mapping[int, LeafPlan]
    """All leaves to read, by field id."""
    filter: Expression | None
    pseudo: tuple[str, ...]
    """Pseudo columns that the result or the filter needs; see `alance.dataset.row_columns`."""
    _read_schema: pa.Schema
    _outputs: tuple[_Output, ...]
    late: FilterPlan | None = None
    """How to read the filter's fields first, where there are others."""

    @property
    def field_ids(self) -> tuple[int, ...]:
        """Of all leaves to read."""
        return tuple(self.leaves)

    def items_per_row(self, field_id: int) -> int:
        """How often pages of a leaf count each row."""
        return self.leaves[field_id].items_per_row

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Columns = None,
        *,
        filter: str | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        has_pseudo: bool = False,
    ) -> Projection:
        """Plan a read of a schema.

        Parameters
        ----------
        schema
            What there is to read.
        columns, filter
            What of it, and for which rows; see `Dataset.scan`.
        with_row_id, with_row_address
            Add these columns unless `columns` names them.
        has_pseudo
            Whether names may be those of pseudo columns: in a dataset, not in a file alone.

        Raises
        ------
        InvalidInputError
            An unknown or repeated column, an expression or filter that does not parse or does not
            fit the schema.
        """
        arrow = schema.to_arrow()
        pseudo = _pseudo_fields(schema) if has_pseudo else pa.schema([])
        known = pa.schema([*arrow, *pseudo])
        predicate = None if filter is None else _parse_filter(filter, known)
        outputs = _outputs(schema, arrow, pseudo, columns)
        for name, is_wanted in ((ROW_ID, with_row_id), (ROW_ADDRESS, with_row_address)):
            if is_wanted:
                outputs = _with_pseudo(outputs, name, pseudo)
        paths: list[tuple[str, ...]] = []
        for output in outputs:
            found = output.expression
            paths += [output.path] if found is None else found.columns()
        if predicate is not None:
            paths += predicate.columns()
        asked = {path[0] for path in paths}
        stored = dict.fromkeys(_quoted(path) for path in paths if path[0] not in pseudo.names)
        read = schema.project(_outermost(stored))
        needed = [field for field in pseudo if field.name in asked]
        roots = _plan_roots(read)
        return cls(
            schema=pa.schema([output.field for output in outputs], metadata=arrow.metadata),
            roots=roots,
            leaves={leaf.field_id: leaf for root in roots for leaf in root.leaves},
            filter=predicate,
            pseudo=tuple(field.name for field in needed),
            _read_schema=pa.schema([*read.to_arrow(), *needed], read.to_arrow().metadata),
            _outputs=outputs,
            late=_plan_filter(schema, pseudo, predicate, roots),
        )

    def finish(self, arrays: Sequence[pa.Array], num_rows: int) -> pa.RecordBatch:
        """Make the result's rows from what was read: filter, evaluate, rename.

        Parameters
        ----------
        arrays
            One for each of `roots`, then one for each of `pseudo`, all `num_rows` long.
        num_rows
            Rows read.
        """
        batch = _batch(arrays, self._read_schema, num_rows)
        if self.filter is not None:
            from alance.query import filter_mask

            mask = filter_mask(self.filter, batch)
            num_rows = mask.true_count
            batch = batch.filter(mask)
        return self._outcome(batch, num_rows)

    def complete(self, passed: pa.RecordBatch, arrays: Sequence[pa.Array]) -> pa.RecordBatch:
        """Make the result's rows where the filter's fields were read first.

        Parameters
        ----------
        passed
            The rows that passed, from `FilterPlan.apply`.
        arrays
            One for each of `late.rest`, then one for each of `pseudo`, for these rows.
        """
        assert self.late is not None
        names = [*(root.name for root in self.late.rest), *self.pseudo]
        found = dict(zip(passed.schema.names, passed.columns, strict=True))
        found.update(zip(names, arrays, strict=True))
        columns = [found[name] for name in self._read_schema.names]
        return self._outcome(_batch(columns, self._read_schema, passed.num_rows), passed.num_rows)

    def _outcome(self, batch: pa.RecordBatch, num_rows: int) -> pa.RecordBatch:
        """Evaluate and rename, for rows that have passed."""
        columns = [self._column(output, batch) for output in self._outputs]
        return _batch(columns, self.schema, num_rows)

    def bare(self, num_rows: int) -> pa.RecordBatch:
        """Rows of a projection without columns."""
        return _batch([], self.schema, num_rows)

    def _column(self, output: _Output, batch: pa.RecordBatch) -> pa.Array:
        if output.expression is not None:
            from alance.query import evaluate

            return evaluate(output.expression, batch)
        column = batch.column(batch.schema.get_field_index(output.path[0]))
        if not output.path[1:]:
            return column
        import pyarrow.compute as pc

        return pc.struct_field(column, list(output.path[1:]))


def _batch(columns: Sequence[pa.Array], schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    if not columns:
        empty = pa.StructArray.from_buffers(pa.struct([]), num_rows, [None])
        return pa.RecordBatch.from_struct_array(empty).replace_schema_metadata(schema.metadata)
    typed = [_typed(column, field) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(typed, schema=schema)


def _typed(column: pa.Array, field: pa.Field) -> pa.Array:
    """Column in the type of the result: with extension types, and JSON as text."""
    if column.type == field.type:
        return column
    return _as_type(read_json(column, field), field.type)


def _as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Array with extension types inside; Arrow's own cast refuses nulls that null structs hide."""
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _as_type(array, kind.storage_type))
    if isinstance(array, pa.StructArray):
        members = [_as_type(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
        valid = array.is_valid().buffers()[1] if array.null_count else None
        return pa.Array.from_buffers(kind, len(array), [valid], children=members)
    if isinstance(array, pa.ListArray | pa.LargeListArray) and pa.types.is_nested(kind):
        items = _as_type(array.values, kind.field(0).type)
        buffers = array.buffers()[:2]
        return pa.Array.from_buffers(
            kind, len(array), buffers, array.null_count, array.offset, [items]
        )
    return array.cast(kind)


def name_list(columns: object) -> tuple[str, ...] | None:
    """Names that a projection asks for, as a value that may be a key; None stays.

    Raises
    ------
    InvalidInputError
        It is no list of texts.
    """
    if columns is None:
        return None
    if isinstance(columns, Iterable) and not isinstance(columns, str):
        names = tuple(columns)
        if all(isinstance(name, str) for name in names):
            return names
    raise InvalidInputError(
        f"columns must be a list of names, or a dict of SQL expressions, not {columns!r}"
    )


def _pseudo_fields(schema: Schema) -> pa.Schema:
    """Pseudo columns, but for those whose names the dataset uses itself."""
    taken = set(schema.names)
    return pa.schema([field for field in PSEUDO_COLUMNS if field.name not in taken])


def _with_pseudo(outputs: tuple[_Output, ...], name: str, pseudo: pa.Schema) -> tuple[_Output, ...]:
    """Outputs with a pseudo column behind them, unless it is among them."""
    if name not in pseudo.names:
        raise InvalidInputError(f"there is a stored column {name!r}, so none can be added")
    same = [output for output in outputs if output.field.name == name]
    if not same:
        return (*outputs, _Output(pseudo.field(name), (name,)))
    if same[0].path != (name,):
        raise InvalidInputError(f"column {name!r} is asked for twice, as what it is and as another")
    return outputs


def _outputs(
    schema: Schema, arrow: pa.Schema, pseudo: pa.Schema, columns: Columns
) -> tuple[_Output, ...]:
    if columns is None:
        return tuple(_Output(field, (field.name,)) for field in arrow)
    if isinstance(columns, Mapping):
        known = pa.schema([*arrow, *pseudo])
        found = []
        for name, sql in columns.items():
            expression = _parse_expression(sql, known)
            found.append(_Output(pa.field(name, expression.type), (), expression))
        return tuple(found)
    stored = [column for column in columns if column not in pseudo.names]
    paths = dict(zip(stored, schema.resolve(stored), strict=True))
    outputs: dict[str, _Output] = {}
    for column in columns:
        if column in outputs:
            raise InvalidInputError(f"column {column!r} is asked for twice")
        path = paths.get(column, (column,))
        field = _nested_field(arrow, column, path) if column in paths else pseudo.field(column)
        outputs[column] = _Output(field, path)
    return tuple(outputs.values())


def _nested_field(arrow: pa.Schema, column: str, path: Sequence[str]) -> pa.Field:
    """Follow a path through structs; the result is null where one of them is."""
    field = arrow.field(path[0])
    if len(path) == 1:
        return field
    nullable = field.nullable
    for part in path[1:]:
        if not pa.types.is_struct(field.type):
            raise InvalidInputError(
                f"column {column!r} leads into {field.name!r} of type {field.type}; ask for "
                "that column itself"
            )
        field = field.type.field(part)
        nullable = nullable or field.nullable
    return field.with_name(column).with_nullable(nullable)


def _quoted(path: Sequence[str]) -> str:
    return ".".join(f"`{part}`" for part in path)


def _outermost(names: Mapping[str, None]) -> list[str]:
    """Leave out names below others in the list: reading the outer one reads them too."""
    return [
        name
        for name in names
        if not any(name[: dot.start() + 1] in names for dot in _SEPARATOR.finditer(name))
    ]


def _parse_filter(sql: str, schema: pa.Schema) -> Expression:
    from alance.query import parse_filter

    return parse_filter(sql, schema)


def _parse_expression(sql: str, schema: pa.Schema) -> Expression:
    from alance.query import parse_expression

    return parse_expression(sql, schema)


def _plan_filter(
    schema: Schema, pseudo: pa.Schema, predicate: Expression | None, roots: Sequence[RootPlan]
) -> FilterPlan | None:
    """How to read a filter's fields first; None where the result needs no others."""
    if predicate is None:
        return None
    paths = predicate.columns()
    stored = dict.fromkeys(_quoted(path) for path in paths if path[0] not in pseudo.names)
    read = schema.project(_outermost(stored))
    first = _plan_roots(read)
    whole = {root.name: root.leaves for root in first}
    rest = tuple(root for root in roots if whole.get(root.name) != root.leaves)
    asked = {path[0] for path in paths}
    added = [field for field in pseudo if field.name in asked]
    names = tuple(field.name for field in added)
    fields = pa.schema([*read.to_arrow(), *added])
    return FilterPlan(predicate, first, names, rest, fields) if rest else None


def blob_ids(roots: Sequence[RootPlan]) -> frozenset[int]:
    """Field ids of leaves whose pages hold blob descriptors."""
    return frozenset(leaf.field_id for root in roots for leaf in root.leaves if leaf.is_blob_v2)


def row_bytes_min(roots: Sequence[RootPlan]) -> int:
    """Bytes that a decoded row takes at least: fixed widths, and offsets of the others."""
    return sum(_bytes_min(leaf.chain[-1]) for root in roots for leaf in root.leaves)


def _plan_roots(read: Schema) -> tuple[RootPlan, ...]:
    leaves: list[list[LeafPlan]] = [[] for _ in read.roots]
    # Which column a leaf has is the file's matter; only the nesting counts here.
    for leaf in read.leaves(FileVersion.V2_2):
        leaves[leaf.top_level].append(_plan_leaf(leaf))
    return tuple(
        RootPlan(
            root.field.name,
            root.data_type,
            tuple(found),
            LeafCounts(root.data_type, is_packed=root.kind is Nesting.LEAF),
        )
        for root, found in zip(read.roots, leaves, strict=True)
    )


def _plan_leaf(leaf: Leaf) -> LeafPlan:
    return LeafPlan(leaf.field_id, _chain(leaf), leaf.node.field.is_blob_v2)


def _chain(leaf: Leaf) -> tuple[pa.DataType, ...]:
    """Types from the top-level field to the leaf, every struct cut down to one member.

    A map is the list of its entries.
    """
    if lies_in_lists(leaf.nodes):
        raise UnsupportedFeatureError(
            f"column {'.'.join(leaf.path)!r} lies in lists of fixed-size lists of structs, "
            "which are not known to this library; a newer one may read them",
            feature="lists of fixed-size lists of structs",
        )
    kind = leaf.node.data_type
    chain = [kind]
    for parent, child in zip(leaf.nodes[-2::-1], leaf.nodes[:0:-1], strict=True):
        member = pa.field(child.field.name, kind, child.field.nullable)
        match parent.kind:
            case Nesting.STRUCT:
                kind = pa.struct([member])
            case Nesting.LIST | Nesting.MAP:
                kind = pa.list_(member)
            case Nesting.FIXED_SIZE_LIST:
                kind = pa.list_(member, parent.data_type.list_size)
            case _:
                kind = pa.large_list(member)
        chain.append(kind)
    return tuple(reversed(chain))


def _bytes_min(kind: pa.DataType) -> int:
    """Bytes that a value takes at least when decoded."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _bytes_min(kind.value_type)
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return OFFSET_BYTES
