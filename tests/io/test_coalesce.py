import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.io.coalesce import cut, locate, plan_requests
from alance.types import ByteRange

SPACE = 400


def plan(*ranges: tuple[int, int], gap: int = 10, longest: int = 100) -> list[tuple[int, int]]:
    asked = [ByteRange(*one) for one in ranges]
    found = plan_requests(asked, gap_bytes_max=gap, request_bytes_max=longest)
    return [(one.start, one.stop) for one in found]


@pytest.mark.parametrize(
    ("ranges", "requests"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([(5, 5)], [], id="empty"),
        pytest.param([(0, 4)], [(0, 4)], id="one"),
        pytest.param([(0, 4), (0, 4)], [(0, 4)], id="twice"),
        pytest.param([(4, 8), (0, 4)], [(0, 8)], id="touching"),
        pytest.param([(0, 4), (14, 18)], [(0, 18)], id="gap as large as allowed"),
        pytest.param([(0, 4), (15, 18)], [(0, 4), (15, 18)], id="gap too large"),
        pytest.param([(0, 50), (10, 20)], [(0, 50)], id="nested"),
        pytest.param([(0, 50), (40, 60)], [(0, 60)], id="overlapping"),
        pytest.param([(0, 60), (60, 100)], [(0, 100)], id="as long as allowed"),
        pytest.param([(0, 60), (65, 101)], [(0, 60), (65, 101)], id="merged would be too long"),
        pytest.param([(0, 60), (40, 120)], [(0, 60), (60, 120)], id="no byte twice"),
        pytest.param([(0, 250)], [(0, 84), (84, 168), (168, 250)], id="split evenly"),
        pytest.param(
            [(0, 250), (255, 260)], [(0, 84), (84, 168), (168, 260)], id="last part merges on"
        ),
        pytest.param([(0, 0), (0, 3), (7, 7)], [(0, 3)], id="empty ones reach nowhere"),
    ],
)
def test_plan(ranges: list[tuple[int, int]], requests: list[tuple[int, int]]) -> None:
    assert plan(*ranges) == requests


@st.composite
def byte_ranges(draw: st.DrawFn) -> ByteRange:
    start = draw(st.integers(0, SPACE))
    return ByteRange(start, draw(st.integers(start, SPACE)))


PLANS = {
    "ranges": st.lists(byte_ranges(), max_size=20),
    "gap": st.integers(0, 50),
    "longest": st.integers(1, 120),
}


@given(**PLANS)
def test_requests_hold_every_byte_once(ranges: list[ByteRange], gap: int, longest: int) -> None:
    requests = plan_requests(ranges, gap_bytes_max=gap, request_bytes_max=longest)
    fetched = [byte for one in requests for byte in range(one.start, one.stop)]
    asked = {byte for one in ranges for byte in range(one.start, one.stop)}
    assert fetched == sorted(set(fetched))
    assert asked <= set(fetched)
    assert all(0 < one.num_bytes <= longest for one in requests)
    # What nobody asked for lies in gaps that were worth it, and never at an end.
    for request in requests:
        assert request.start in asked
        assert request.stop - 1 in asked
        unasked = [byte not in asked for byte in range(request.start, request.stop)]
        runs = "".join("x" if one else "." for one in unasked).split(".")
        assert max(map(len, runs)) <= gap


@given(**PLANS)
def test_requests_do_not_depend_on_order(ranges: list[ByteRange], gap: int, longest: int) -> None:
    one_way = plan_requests(ranges, gap_bytes_max=gap, request_bytes_max=longest)
    other_way = plan_requests(
        [*reversed(ranges), *ranges], gap_bytes_max=gap, request_bytes_max=longest
    )
    assert one_way == other_way


@given(**PLANS)
def test_answers_are_cut_to_what_was_asked(ranges: list[ByteRange], gap: int, longest: int) -> None:
    data = bytes(i % 251 for i in range(SPACE))
    requests = plan_requests(ranges, gap_bytes_max=gap, request_bytes_max=longest)
    answers = [memoryview(data)[one.start : one.stop] for one in requests]
    for one in ranges:
        if one.num_bytes:
            where = locate(one, requests)
            view = cut(one, requests[where], answers[where])
            assert view == data[one.start : one.stop]
            if len(requests[where]) == 1:
                assert view.obj is data


def test_a_range_within_one_request_is_a_view() -> None:
    data = bytearray(b"0123456789")
    view = cut(ByteRange(12, 15), [ByteRange(10, 20)], [memoryview(data)])
    data[2:5] = b"abc"
    assert bytes(view) == b"abc"


def test_thousand_neighbours_are_one_request() -> None:
    ranges = [ByteRange(8 * i, 8 * i + 8) for i in range(1000)]
    requests = plan_requests(ranges, gap_bytes_max=0, request_bytes_max=1 << 20)
    assert requests == [ByteRange(0, 8000)]
