from alance.io.window import Window


def answers(window: Window, count: int) -> int:
    """Slots after so many answers."""
    for _ in range(count):
        window.answered()
    return window.num_slots


def test_all_slots_while_nothing_is_refused() -> None:
    window = Window(64)
    assert answers(window, 1000) == 64


def test_a_refusal_halves_once_for_all_that_were_on_their_way() -> None:
    window = Window(64)
    epoch = window.epoch
    for _ in range(40):
        window.refused(epoch)
    assert window.num_slots == 32
    window.refused(window.epoch)
    assert window.num_slots == 16


def test_one_slot_is_always_left() -> None:
    window = Window(3)
    for _ in range(10):
        window.refused(window.epoch)
    assert window.num_slots == 1


def test_it_grows_by_one_for_a_window_of_answers() -> None:
    window = Window(64)
    window.refused(window.epoch)
    assert answers(window, 31) == 32
    assert answers(window, 2) == 33
    assert answers(window, 64 * 40) == 64


def test_after_a_storm_it_soon_grows_to_half_of_what_was_too_much() -> None:
    window = Window(64)
    for _ in range(6):
        window.refused(window.epoch)
    assert window.num_slots == 1
    assert answers(window, 31) == 32
    assert answers(window, 31) == 32
    assert answers(window, 2) == 33
    window.refused(window.epoch)
    window.refused(window.epoch)
    assert window.num_slots == 8
    assert answers(window, 8) == 16
