"""SQL filters and expressions over Arrow batches: parsed once, checked, computed by column."""

from alance.query.evaluate import evaluate, filter_mask
from alance.query.expression import Expression
from alance.query.parser import parse_expression, parse_filter

__all__ = ["Expression", "evaluate", "filter_mask", "parse_expression", "parse_filter"]
