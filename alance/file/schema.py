"""The stored schema: fields and field ids, their leaves, projections, and Arrow on both sides."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from alance.encodings.assemble import items_per_row
from alance.encodings.options import ColumnOptions, column_options, parse_options
from alance.errors import (
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from alance.file.fields import (
    Field,
    Nesting,
    Node,
    build_tree,
    fields_from_arrow,
    node_to_arrow,
)
from alance.file.refusals import text_metadata
from alance.file.storable import check_blobs, check_packed, check_struct_lists
from alance.file.types import BLOB_V2
from alance.types import FileVersion

__all__ = ["Field", "Leaf", "Nesting", "Node", "Schema", "match_append"]

_NAME_PART = re.compile(r"`([^`]*)`|([^.`]+)")
_SUGGESTIONS_MAX = 2000
"""Names compared when looking for what a caller may have meant."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field that owns a column, and the way down to it.

    Parameters
    ----------
    field_id
        Its identity.
    path
        Names from the top-level field to the leaf.
    top_level
        Index of its top-level field in `Schema.roots`.
    nodes
        From the top-level field to the leaf itself, outer-most first: the leaf's layers are these
        in reverse.
    """

    field_id: int
    path: tuple[str, ...]
    top_level: int
    nodes: tuple[Node, ...]

    @property
    def node(self) -> Node:
        """The leaf itself."""
        return self.nodes[-1]

    @property
    def items_per_row(self) -> int:
        """How often pages count each row; see `alance.encodings.assemble.items_per_row`."""
        return items_per_row([node.data_type for node in self.nodes])

    @property
    def options(self) -> ColumnOptions:
        """What metadata asks of the writer of this column."""
        names = [".".join(self.path[: depth + 1]) for depth in range(len(self.nodes))]
        metadata = [node.field.metadata for node in self.nodes]
        return column_options(list(zip(names, metadata, strict=True)))


@dataclass(frozen=True, slots=True)
class Schema:
    """Fields in depth-first pre-order and metadata of the whole.

    Building one checks it: fields may come in any order that has parents first.

    Parameters
    ----------
    fields
        All of them, nested ones too.
    metadata
        Arrow schema metadata.

    Raises
    ------
    CorruptFileError, UnsupportedFeatureError
        The fields make no tree, or have types unknown to this library.
    """

    fields: tuple[Field, ...]
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    roots: tuple[Node, ...] = field(init=False, repr=False, compare=False)
    """Top-level fields with everything below them."""

    def __post_init__(self) -> None:
        roots = build_tree(self.fields)
        ordered = tuple(node.field for root in roots for node in root.walk())
        object.__setattr__(self, "roots", roots)
        object.__setattr__(self, "fields", ordered)

    @classmethod
    def from_arrow(cls, schema: pa.Schema, *, first_id: int = 0) -> Schema:
        """Schema that stores an Arrow schema, with field ids counted up from `first_id`.

        String and binary views become plain ones, extension types their storage type with metadata.

        Raises
        ------
        InvalidInputError
            A type, name or metadata that the format cannot store; names the field.
        """
        fields = fields_from_arrow(schema, first_id)
        return cls(tuple(fields), text_metadata(schema.metadata, "the schema"))

    def to_arrow(self, *, extension_types: bool = True) -> pa.Schema:
        """Arrow schema; with `extension_types` those that PyArrow knows are rebuilt."""
        fields = [node_to_arrow(root, extension_types=extension_types) for root in self.roots]
        return pa.schema(fields, metadata=dict(self.metadata) or None)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the top-level fields."""
        return tuple(root.field.name for root in self.roots)

    @property
    def max_field_id(self) -> int:
        """Largest field id; -1 when there is no field."""
        return max((entry.id for entry in self.fields), default=-1)

    def leaves(self, version: FileVersion) -> tuple[Leaf, ...]:
        """Fields that own a column, in column order.

        Raises
        ------
        UnsupportedFeatureError
            A file of this version has no leaves, or cannot hold one of the types.
        """
        if version not in (FileVersion.V2_1, FileVersion.V2_2):
            raise UnsupportedFeatureError(
                f"files of version {version.value} do not map columns to leaves",
                feature=f"file version {version.value}",
            )
        if version is FileVersion.V2_1:
            for entry in self.fields:
                if entry.logical_type == "map" or _is_struct_list(entry):
                    raise UnsupportedFeatureError(
                        f"field {entry.name!r} of type {entry.logical_type!r} needs file version "
                        "2.2; this is 2.1",
                        feature=f"{entry.logical_type} in file version 2.1",
                    )
        return tuple(
            Leaf(nodes[-1].field.id, tuple(node.field.name for node in nodes), top_level, nodes)
            for top_level, root in enumerate(self.roots)
            for nodes in _chains(root, ())
        )

    def check_storable(self, version: FileVersion) -> None:
        """Refuse types that files of `version` cannot hold, before anything is written.

        Raises
        ------
        InvalidInputError
            Names the first such field.
        """
        for root in self.roots:
            check_blobs(root, version)
            check_packed(root, version)
            check_struct_lists(root)
        if version is FileVersion.V2_2:
            return
        for entry in self.fields:
            is_newer = entry.logical_type in ("map", "fixed_size_binary:0")
            if is_newer or _is_struct_list(entry):
                raise InvalidInputError(
                    f"column {entry.name!r} of type {entry.logical_type!r} cannot be stored in "
                    f"file version {version.value}; write with data_storage_version='2.2'"
                )

    def check_options(self) -> None:
        """Refuse `lance-encoding` metadata that asks for what does not exist.

        Raises
        ------
        InvalidInputError
            Names the field and the key.
        """
        names: dict[int, str] = {}
        for entry in self.fields:
            above = names.get(entry.parent_id)
            names[entry.id] = entry.name if above is None else f"{above}.{entry.name}"
            parse_options(entry.metadata, names[entry.id])

    def project(self, columns: Sequence[str]) -> Schema:
        """Schema of some columns, ids kept.

        Parameters
        ----------
        columns
            Names, dotted for nested fields; a part that holds a dot itself stands in backticks.
            Lists are passed by the name of their item. Top-level fields come in the order asked
            for, nested ones in their own.

        Raises
        ------
        InvalidInputError
            A name that is not in the schema (says which ones are close), or asked for twice.
        """
        roots = self._roots_by_name()
        wanted: set[tuple[str, ...]] = set()
        top: dict[str, Node] = {}
        for column in columns:
            path = self._resolve(column, roots)
            if path in wanted:
                raise InvalidInputError(f"column {column!r} is asked for twice")
            wanted.add(path)
            top[path[0]] = roots[path[0]][0]
        fields = [entry for name, root in top.items() for entry in _pick(root, (name,), wanted)]
        return Schema(tuple(fields), self.metadata)

    def resolve(self, columns: Sequence[str]) -> list[tuple[str, ...]]:
        """Paths of dotted names, written as for `project`.

        Raises
        ------
        InvalidInputError
            A name that is not in the schema; says which ones are close.
        """
        roots = self._roots_by_name()
        return [self._resolve(column, roots) for column in columns]

    def _roots_by_name(self) -> dict[str, list[Node]]:
        roots: dict[str, list[Node]] = {}
        for root in self.roots:
            roots.setdefault(root.field.name, []).append(root)
        return roots

    def _resolve(self, column: str, roots: Mapping[str, Sequence[Node]]) -> tuple[str, ...]:
        """Path of a dotted name; `roots` are the top-level nodes by name."""
        path = (column,) if column in roots else _split(column)
        if not path:
            raise self._unknown(column, 0)
        matches = roots.get(path[0], ())
        for i, name in enumerate(path):
            if i > 0:
                below = () if matches[0].kind is Nesting.MAP else matches[0].children
                matches = [node for node in below if node.field.name == name]
            if len(matches) != 1:
                raise self._unknown(column, len(matches))
        return path

    def _unknown(self, column: str, num_matches: int) -> InvalidInputError:
        if num_matches:
            return InvalidInputError(f"column {column!r} is ambiguous: {num_matches} have the name")
        known = [".".join(path) for path in itertools.islice(self._paths(), _SUGGESTIONS_MAX)]
        close = difflib.get_close_matches(column, known, n=3)
        hint = (
            f"did you mean {' or '.join(map(repr, close))}?" if close else f"columns: {known[:20]}"
        )
        return InvalidInputError(f"column {column!r} is not in the schema; {hint}")

    def _paths(self) -> Iterator[tuple[str, ...]]:
        todo: list[tuple[Node, tuple[str, ...]]] = [
            (root, (root.field.name,)) for root in reversed(self.roots)
        ]
        while todo:
            node, path = todo.pop()
            yield path
            if node.kind is not Nesting.MAP:
                todo.extend((c, (*path, c.field.name)) for c in reversed(node.children))


def _is_struct_list(entry: Field) -> bool:
    return entry.logical_type.startswith("fixed_size_list:struct:")


def _chains(node: Node, above: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Nodes from the top to each leaf below `node`."""
    nodes = (*above, node)
    if node.kind is Nesting.LEAF:
        yield nodes
        return
    for child in node.children:
        yield from _chains(child, nodes)


def _pick(node: Node, path: tuple[str, ...], wanted: set[tuple[str, ...]]) -> list[Field]:
    """Fields of `node` that are wanted, with all above and below them; packed structs whole."""
    is_packed = node.kind is Nesting.LEAF and bool(node.children)
    if path in wanted or (is_packed and any(each[: len(path)] == path for each in wanted)):
        return [each.field for each in node.walk()]
    below = [
        entry
        for child in node.children
        for entry in _pick(child, (*path, child.field.name), wanted)
    ]
    return [node.field, *below] if below else []


def _split(column: str) -> tuple[str, ...]:
    """Parts of a dotted name; none when it is not well formed."""
    parts: list[str] = []
    position = 0
    while True:
        match = _NAME_PART.match(column, position)
        if match is None:
            return ()
        parts.append(match[2] if match[1] is None else match[1])
        position = match.end()
        if position == len(column):
            return tuple(parts)
        if column[position] != ".":
            return ()
        position += 1


def match_append(schema: Schema, arrow_schema: pa.Schema) -> Schema:
    """Fit data that is to be appended to the schema of the dataset.

    Columns may come in any order; nullable ones may be missing. Names of list items and of map
    entries are not compared.

    Returns
    -------
    Schema
        The dataset's fields, ids included, of the columns that the data has, in the data's order.

    Raises
    ------
    SchemaMismatchError
        Every difference: columns that are missing or unknown, other types, nulls where the dataset
        allows none.
    InvalidInputError
        A type that the format cannot store.
    """
    theirs = Schema.from_arrow(arrow_schema)
    known = {root.field.name: root for root in schema.roots}
    given = set(theirs.names)
    differences = [
        f"{name}: the data lacks this column, which must not be null"
        for name, root in known.items()
        if name not in given and not root.field.nullable
    ]
    for root in theirs.roots:
        mine = known.get(root.field.name)
        if mine is None:
            differences.append(f"{root.field.name}: the dataset has no such column")
        else:
            differences.extend(_differences(root.field.name, mine, root))
    if differences:
        raise SchemaMismatchError(
            "the data does not fit the dataset's schema:\n  " + "\n  ".join(differences)
        )
    fields = [node.field for name in theirs.names for node in known[name].walk()]
    return Schema(tuple(fields), schema.metadata)


def _differences(path: str, mine: Node, theirs: Node) -> Iterator[str]:
    """What keeps data of `theirs` from being stored as `mine`."""
    if theirs.field.nullable and not mine.field.nullable:
        yield f"{path}: the dataset allows no null, the data may hold some"
    if mine.field.is_blob_v2:
        if not pa.types.is_large_binary(theirs.data_type):
            yield f"{path}: the dataset has blobs, which are given as large_binary or {BLOB_V2}"
        return
    if theirs.field.is_blob_v2:
        yield f"{path}: the dataset has type {mine.data_type}, the data {BLOB_V2}"
        return
    if _shape(mine.field) != _shape(theirs.field):
        yield f"{path}: the dataset has type {mine.data_type}, the data {theirs.data_type}"
        return
    names = (mine.field.extension_name, theirs.field.extension_name)
    if all(names) and names[0] != names[1]:
        yield f"{path}: the dataset has extension type {names[0]}, the data {names[1]}"
    if mine.field.logical_type == "struct":
        ours, given = ([child.field.name for child in node.children] for node in (mine, theirs))
        if ours != given:
            yield f"{path}: the dataset has members {ours}, the data {given}"
            return
    for ours_child, their_child in zip(mine.children, theirs.children, strict=True):
        yield from _differences(f"{path}.{ours_child.field.name}", ours_child, their_child)


def _shape(entry: Field) -> str:
    """Logical type with the two spellings of a list of structs made one."""
    return entry.logical_type.removesuffix(".struct")
