"""A second request when the first takes unusually long: the first answer wins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from alance._aio import first_error
from alance.errors import StoreError

__all__ = ["first_answer"]

T = TypeVar("T")


async def first_answer(
    send: Callable[[], Awaitable[T]],
    send_again: Callable[[], Awaitable[T]],
    *,
    may_send_again: Callable[[], Awaitable[bool]],
) -> T:
    """Send a request, later perhaps a second one; the loser is cancelled.

    Parameters
    ----------
    send, send_again
        Start the first and the second; each called once at most.
    may_send_again
        Awaited beside the first; returns whether to send the second.

    Returns
    -------
    T
        The first answer.

    Raises
    ------
    StoreError
        That of the first request to fail, once none is left under way.
    """
    answers: list[T] = []
    errors: list[Exception] = []
    under_way = 1

    async def ask(request: Callable[[], Awaitable[T]]) -> None:
        nonlocal under_way
        try:
            answers.append(await request())
        except StoreError as exc:
            errors.append(exc)
        under_way -= 1
        if answers or not under_way:
            tg.cancel_scope.cancel()

    async def ask_again() -> None:
        nonlocal under_way
        if await may_send_again():
            under_way += 1
            await ask(send_again)

    with first_error():
        async with anyio.create_task_group() as tg:
            tg.start_soon(ask_again)
            await ask(send)
    if answers:
        return answers[0]
    raise errors[0]
