from dataclasses import fields

import pytest

from alance.errors import InvalidInputError
from alance.limits import Limits

FROM_ONE = [
    "requests_max",
    "bytes_in_flight_max",
    "decoders_max",
    "cache_bytes_max",
    "request_bytes_max",
    "merge_gap_bytes_max",
    "commit_attempts_max",
]
FROM_ZERO = ["page_cache_bytes_max", "retries_max", "retry_budget", "merge_gap_bytes"]
ONE_OR_NONE = ["request_bytes"]
NUMBERS = ["retry_deadline_s", "request_timeout_s", "hedge_budget"]


def test_every_limit_is_checked() -> None:
    assert {one.name for one in fields(Limits)} == {*FROM_ONE, *ONE_OR_NONE, *FROM_ZERO, *NUMBERS}


@pytest.mark.parametrize("value", [-1, 1.5, "9", True])
@pytest.mark.parametrize("name", FROM_ONE + ONE_OR_NONE + FROM_ZERO)
def test_counts_are_whole_numbers(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=name):
        Limits(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FROM_ONE + ONE_OR_NONE)
def test_some_counts_begin_at_one(name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        Limits(**{name: 0})


def test_others_may_be_nothing() -> None:
    assert Limits(**dict.fromkeys(FROM_ZERO + NUMBERS, 0)).retries_max == 0
    assert Limits(merge_gap_bytes=None).merge_gap_bytes is None


@pytest.mark.parametrize("value", [-0.1, float("nan"), "9", None, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_times_and_shares_are_numbers(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=name):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_a_share_is_at_most_all() -> None:
    with pytest.raises(InvalidInputError, match=r"hedge_budget.*1\.5"):
        Limits(hedge_budget=1.5)
