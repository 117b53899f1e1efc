import pytest

from alance.io.learned import AnswerTimes, CostModel

MIB = 1 << 20


def feed(model: CostModel, latency_s: float, bandwidth: float, count: int = 40) -> None:
    for _ in range(count):
        model.answered(1000, latency_s)
        model.answered(8 * MIB, latency_s + 8 * MIB / bandwidth)


def test_nothing_is_believed_before_there_is_enough() -> None:
    model = CostModel(128 << 10, learns=True)
    for _ in range(15):
        model.answered(1000, 5.0)
    model.answered(8 * MIB, 1.0)
    assert (model.latency_s, model.bandwidth, model.gap_bytes) == (None, None, 128 << 10)


@pytest.mark.parametrize(
    ("latency_s", "bandwidth", "gap_bytes", "request_bytes"),
    [
        (0.030, 90e6, 128 << 10, 2560 << 10),  # what is assumed at first
        (0.100, 90e6, 256 << 10, 5 * MIB),
        (0.150, 400e6, 2 * MIB, 40 * MIB),
        (0.001, 200e6, 8 << 10, 2 * MIB),
        (0.0001, 1e6, 4 << 10, 2 * MIB),
    ],
)
def test_gaps_and_requests_follow_latency_and_bandwidth(
    latency_s: float, bandwidth: float, gap_bytes: int, request_bytes: int
) -> None:
    model = CostModel(128 << 10, learns=True)
    feed(model, latency_s, bandwidth)
    assert model.latency_s == pytest.approx(latency_s)
    assert model.bandwidth == pytest.approx(bandwidth)
    assert model.gap_bytes == gap_bytes
    assert model.request_bytes == request_bytes


def test_plans_do_not_follow_every_answer() -> None:
    model = CostModel(128 << 10, learns=True)
    feed(model, 0.030, 90e6)
    for slow in (0.02, 0.04, 3.0, 0.025):
        model.answered(1000, slow)
        assert model.gap_bytes == 128 << 10


def test_another_network_is_noticed() -> None:
    model = CostModel(128 << 10, learns=True)
    feed(model, 0.030, 90e6)
    feed(model, 0.300, 90e6)
    assert model.gap_bytes == MIB


def test_disks_and_memory_teach_nothing() -> None:
    model = CostModel(64 << 10, learns=False)
    feed(model, 0.5, 90e6)
    assert (model.latency_s, model.gap_bytes, model.request_bytes) == (None, 64 << 10, None)


def test_late_is_later_than_most_of_the_same_size() -> None:
    times = AnswerTimes()
    for count in range(19):
        times.answered(1000, count / 100)
        assert times.late_after_s(1000) is None
    times.answered(1000, 9.0)
    assert times.late_after_s(1000) == 9.0
    for _ in range(20):
        times.answered(60_000, 0.01)
    assert times.late_after_s(5) == 0.18
    assert times.late_after_s(8 * MIB) is None
