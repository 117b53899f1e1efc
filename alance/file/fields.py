"""Fields as the format lists them, the tree they form, and Arrow fields on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import pyarrow as pa

from alance.errors import CorruptFileError, InvalidInputError
from alance.file.json_fields import LANCE_JSON, as_text, is_json_text
from alance.file.refusals import refuse_duplicates, refuse_storage, text_metadata
from alance.file.types import (
    BLOB_V2,
    EXTENSION_METADATA,
    EXTENSION_NAME,
    extension_parts,
    format_logical_type,
    parse_logical_type,
)

__all__ = ["Field", "Nesting", "Node", "build_tree", "fields_from_arrow", "node_to_arrow"]

DEPTH_MAX = 64
"""Nesting of fields; far more than levels of 16 bits can tell apart in practice."""

PRIMARY_KEY = "lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION = "lance-schema:unenforced-primary-key:position"
CLUSTERING_KEY_POSITION = "lance-schema:unenforced-clustering-key:position"
PACKED = "lance-encoding:packed"
BLOB = "lance-encoding:blob"


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of the stored schema.

    Parameters
    ----------
    name
        Own name, not a path.
    id
        Identity for the life of the table; -1 in blob descriptors, which have none.
    parent_id
        Field id of the parent, -1 at top level.
    logical_type
        The format's own spelling of the type.
    nullable
        Whether null is allowed.
    metadata
        Arrow field metadata.
    extension_name
        Arrow extension type; repeats `metadata["ARROW:extension:name"]`.
    encoding
        Legacy hint: 0 none, 1 plain, 2 var binary, 3 dictionary, 4 RLE.
    dictionary
        Offset and length of the dictionary, in 0.1 files only.
    unenforced_primary_key, unenforced_primary_key_position
        Whether the field belongs to the primary key, and its 1-based place there (0: unspecified).
    unenforced_clustering_key, unenforced_clustering_key_position
        The same for the clustering key.
    """

    name: str
    id: int
    parent_id: int
    logical_type: str
    nullable: bool = True
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    extension_name: str = ""
    encoding: int = 0
    dictionary: tuple[int, int] | None = None
    unenforced_primary_key: bool = False
    unenforced_primary_key_position: int = 0
    unenforced_clustering_key: bool = False
    unenforced_clustering_key_position: int = 0

    def with_metadata(self, metadata: Mapping[str, bytes]) -> Field:
        """The field with other metadata, and what follows from that: extension and keys."""
        in_key = metadata.get(PRIMARY_KEY, b"").lower() in (b"true", b"1", b"yes")
        place = _place(metadata, PRIMARY_KEY_POSITION)
        return replace(
            self,
            metadata=metadata,
            extension_name=metadata.get(EXTENSION_NAME, b"").decode(),
            unenforced_primary_key=in_key or place > 0,
            unenforced_primary_key_position=place,
            unenforced_clustering_key_position=_place(metadata, CLUSTERING_KEY_POSITION),
        )

    @property
    def is_packed(self) -> bool:
        """Whether a struct is stored row by row, as one column."""
        return PACKED in self.metadata or self.metadata.get("packed") == b"true"

    @property
    def is_blob(self) -> bool:
        """Whether values lie apart from the column, which holds their places."""
        return BLOB in self.metadata

    @property
    def is_blob_v2(self) -> bool:
        """Whether the column holds blob descriptors of file version 2.2.

        A dataset says it with the extension type, a data file with the struct of the descriptors.
        """
        extension = self.extension_name or self.metadata.get(EXTENSION_NAME, b"").decode()
        is_marked = extension == BLOB_V2 or (self.is_blob and self.is_packed)
        return self.logical_type == "struct" and is_marked


class Nesting(Enum):
    """What a field adds to the nesting of the leaves below it."""

    STRUCT = "struct"
    LIST = "list"
    LARGE_LIST = "large_list"
    MAP = "map"
    FIXED_SIZE_LIST = "fixed_size_list"
    """Of structs; one of plain values is a leaf."""
    LEAF = "leaf"
    """Owns a column: plain values, but also packed and empty structs."""


@dataclass(frozen=True, slots=True)
class Node:
    """A field with its place in the tree.

    Parameters
    ----------
    field
        The stored entry.
    kind
        What it adds to the nesting of its leaves.
    data_type
        Arrow type without extension types, children included.
    children
        In order; also the members of a packed struct, which are no leaves of their own.
    """

    field: Field
    kind: Nesting
    data_type: pa.DataType
    children: tuple[Node, ...] = ()

    def walk(self) -> Iterable[Node]:
        """Nodes in depth-first pre-order."""
        yield self
        for child in self.children:
            yield from child.walk()


def build_tree(fields: Sequence[Field]) -> tuple[Node, ...]:
    """Top-level nodes of fields listed parents first.

    Raises
    ------
    CorruptFileError
        Parents that are missing or come later, an id used twice, a nest too deep, children that do
        not fit their parent's type.
    UnsupportedFeatureError
        A logical type that this library does not know.
    """
    children: list[list[int]] = [[] for _ in fields]
    depths = [0] * len(fields)
    top: list[int] = []
    positions: dict[int, int] = {}
    for i, entry in enumerate(fields):
        parent = _parent(fields, i, positions)
        if parent is None:
            top.append(i)
        else:
            children[parent].append(i)
            depths[i] = depths[parent] + 1
            if depths[i] == DEPTH_MAX:
                raise CorruptFileError(f"schema nests fields deeper than {DEPTH_MAX}")
        if entry.id != -1 and positions.setdefault(entry.id, i) != i:
            raise CorruptFileError(f"schema uses field id {entry.id} twice")

    def build(i: int) -> Node:
        return _node(fields[i], tuple(build(child) for child in children[i]))

    return tuple(build(i) for i in top)


def _parent(fields: Sequence[Field], i: int, positions: Mapping[int, int]) -> int | None:
    """Position of the parent of field i; None at top level."""
    entry = fields[i]
    if entry.parent_id == -1:
        if entry.id != -1:
            return None
        # Members of a blob descriptor have no ids: they belong to the struct they come after.
        owner = next((k for k in range(i - 1, -1, -1) if fields[k].id != -1), None)
        if owner is not None and fields[owner].is_blob:
            return owner
        raise CorruptFileError(f"field {entry.name!r} has id -1, which only blob descriptors have")
    if entry.parent_id not in positions:
        raise CorruptFileError(
            f"field {entry.name!r} (id {entry.id}) comes before its parent, id {entry.parent_id}, "
            "or has none"
        )
    return positions[entry.parent_id]


def _node(entry: Field, children: tuple[Node, ...]) -> Node:
    kind, num_children = _kind(entry.logical_type)
    if num_children is not None and len(children) != num_children:
        raise CorruptFileError(
            f"field {entry.name!r} of type {entry.logical_type!r} has {len(children)} children; "
            f"{num_children} belong there"
        )
    if kind is Nesting.LEAF:
        return Node(entry, kind, parse_logical_type(entry.logical_type))
    if entry.is_blob_v2:
        # Whatever it lists is the form in which values are given or described, not what they are.
        return Node(entry, Nesting.LEAF, pa.large_binary(), children)
    members = [_storage_field(child) for child in children]
    if kind is Nesting.STRUCT:
        if entry.is_packed or not children:
            kind = Nesting.LEAF
        return Node(entry, kind, pa.struct(members), children)
    if kind is Nesting.LIST:
        return Node(entry, kind, pa.list_(members[0]), children)
    if kind is Nesting.LARGE_LIST:
        return Node(entry, kind, pa.large_list(members[0]), children)
    if children[0].field.logical_type != "struct":
        raise CorruptFileError(f"field {entry.name!r}: the child of a {kind.value} is a struct")
    if kind is Nesting.FIXED_SIZE_LIST:
        dimension = _dimension(entry)
        return Node(entry, kind, pa.list_(members[0], dimension), children)
    if len(children[0].children) != 2:
        raise CorruptFileError(f"field {entry.name!r}: the entries of a map are a key and a value")
    key, value = (_storage_field(child) for child in children[0].children)
    if pa.types.is_null(key.type):
        raise CorruptFileError(f"field {entry.name!r}: the keys of a map cannot be null")
    return Node(entry, kind, pa.map_(key.with_nullable(False), value), children)


def _kind(logical_type: str) -> tuple[Nesting, int | None]:
    """Nesting of a logical type and how many children it has; None is any number."""
    if logical_type == "struct":
        return Nesting.STRUCT, None
    if logical_type in ("list", "list.struct"):
        return Nesting.LIST, 1
    if logical_type in ("large_list", "large_list.struct"):
        return Nesting.LARGE_LIST, 1
    if logical_type == "map":
        return Nesting.MAP, 1
    if logical_type.startswith("fixed_size_list:struct:"):
        return Nesting.FIXED_SIZE_LIST, 1
    return Nesting.LEAF, 0


def _dimension(entry: Field) -> int:
    """Items of a fixed-size list of structs."""
    # The same rules as for a list of bytes, whose parser checks them.
    text = entry.logical_type.replace("struct", "uint8", 1)
    return int(parse_logical_type(text).list_size)


def _storage_field(node: Node) -> pa.Field:
    """Arrow field with storage types and the stored metadata."""
    entry = node.field
    metadata = dict(entry.metadata)
    if entry.is_blob_v2:
        for key in (EXTENSION_NAME, EXTENSION_METADATA, PACKED):
            metadata.pop(key, None)
        metadata[BLOB] = b"true"
    elif entry.extension_name:
        metadata.setdefault(EXTENSION_NAME, entry.extension_name.encode())
    # Arrow refuses to say that a column of nothing but nulls has none.
    nullable = entry.nullable or pa.types.is_null(node.data_type)
    return pa.field(entry.name, node.data_type, nullable=nullable, metadata=metadata or None)


def node_to_arrow(node: Node, *, extension_types: bool) -> pa.Field:
    """Arrow field of a top-level node.

    Extension types that PyArrow has registered are rebuilt; others, and those that reject what is
    stored, stay storage types with the extension's metadata, as Arrow does it. JSON is text.
    """
    plain = _storage_field(node)
    if not extension_types or not any(_has_extension(n.field) for n in node.walk()):
        return plain
    plain = as_text(plain)
    try:
        return pa.ipc.read_schema(pa.schema([plain]).serialize()).field(0)
    except (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError):
        return plain


def _has_extension(entry: Field) -> bool:
    return bool(entry.extension_name) or EXTENSION_NAME in entry.metadata


def fields_from_arrow(schema: pa.Schema, first_id: int) -> list[Field]:
    """Fields in pre-order with ids counted up from `first_id`.

    Raises
    ------
    InvalidInputError
        A name, type or metadata that the format cannot store, with the dotted name of the field.
    """
    out: list[Field] = []
    refuse_duplicates(schema, "the schema")
    for item in schema:
        if "." in item.name:
            raise InvalidInputError(
                f"column {item.name!r}: names of top-level columns must not hold a dot, which "
                "separates the parts of nested names; rename it"
            )
        _add_field(item, -1, item.name, first_id, out)
    return out


def _place(metadata: Mapping[str, bytes], key: str) -> int:
    """1-based place in a key that metadata give a field; 0 when they give none."""
    position = metadata.get(key, b"")
    return int(position) if position.isdigit() and len(position) < 10 else 0


def _add_field(item: pa.Field, parent_id: int, path: str, first_id: int, out: list[Field]) -> None:
    """Append `item` and its descendants to `out`."""
    if path.count(".") >= DEPTH_MAX:
        raise InvalidInputError(f"column {path[:80]!r}... nests deeper than {DEPTH_MAX}")
    data_type, metadata = item.type, text_metadata(item.metadata, f"column {path!r}")
    if isinstance(data_type, pa.BaseExtensionType):
        name, parameters = extension_parts(data_type)
        own = {EXTENSION_NAME.encode(): name.encode(), EXTENSION_METADATA.encode(): parameters}
        metadata.update(text_metadata(own, f"column {path!r}"))
        data_type = data_type.storage_type
    extension = metadata.get(EXTENSION_NAME, b"").decode()
    refuse_storage(extension, data_type, path)
    if is_json_text(data_type, extension):
        data_type, extension = pa.large_binary(), LANCE_JSON
        metadata[EXTENSION_NAME] = extension.encode()
    logical_type, children = _describe(data_type, extension, path)
    field_id = first_id + len(out)
    entry = Field(
        name=item.name,
        id=field_id,
        parent_id=parent_id,
        logical_type=logical_type,
        nullable=item.nullable,
        encoding=_hint(logical_type),
    )
    out.append(entry.with_metadata(metadata))
    for child in children:
        _add_field(child, field_id, f"{path}.{child.name}", first_id, out)


def _describe(data_type: pa.DataType, extension: str, path: str) -> tuple[str, Sequence[pa.Field]]:
    """Logical type of a storage type, and the children it lists."""
    types = pa.types
    if types.is_struct(data_type):
        members = list(data_type)
        refuse_duplicates(members, f"column {path!r}")
        return "struct", members
    if types.is_list(data_type) or types.is_large_list(data_type):
        name = "list" if types.is_list(data_type) else "large_list"
        item = data_type.value_field
        storage = item.type.storage_type if _is_extension(item.type) else item.type
        return (f"{name}.struct" if types.is_struct(storage) else name), [item]
    if types.is_map(data_type):
        if data_type.keys_sorted:
            raise InvalidInputError(
                f"column {path!r} is a map with sorted keys, which the Lance format cannot store; "
                "cast it to a map with keys_sorted=False"
            )
        members = [data_type.key_field, data_type.item_field]
        return "map", [pa.field("entries", pa.struct(members), nullable=False)]
    if types.is_fixed_size_list(data_type) and types.is_struct(data_type.value_type):
        format_logical_type(pa.list_(pa.uint8(), data_type.list_size), path)
        return f"fixed_size_list:struct:{data_type.list_size}", [data_type.value_field]
    if extension == LANCE_JSON and types.is_large_binary(data_type):
        return "json", ()
    return format_logical_type(data_type, path), ()


def _is_extension(data_type: pa.DataType) -> bool:
    return isinstance(data_type, pa.BaseExtensionType)


def _hint(logical_type: str) -> int:
    """Legacy encoding hint that belongs to a type."""
    if logical_type in ("null", "struct"):
        return 0
    if logical_type in ("string", "binary", "large_string", "large_binary", "json"):
        return 2
    return 3 if logical_type.startswith("dict:") else 1
