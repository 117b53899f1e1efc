"""Constant: null for every slot; the items of fixed-size lists that are all null."""

from __future__ import annotations

from alance.encodings.blocks import DataBlock, NullBlock
from alance.encodings.registry import Compressive, EncodingRegistry
from alance.encodings.spec import Constant
from alance.errors import UnsupportedFeatureError

__all__ = ["ConstantEncoding"]


class ConstantEncoding(Compressive):
    """Stores no bytes at all."""

    name = "constant"
    spec_type = Constant
    transparent = True

    def decode_values(
        self, spec: Constant, block: DataBlock, registry: EncodingRegistry
    ) -> DataBlock:
        """As many nulls as the page has slots."""
        if spec.value is not None:
            raise UnsupportedFeatureError(
                "items that all have one value are not known to this library; a newer one may "
                "read them",
                feature="constant with a value",
            )
        return NullBlock(block.num_values)
