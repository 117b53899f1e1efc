"""What the endpoint does wrong on purpose, and to which requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

__all__ = ["Fault", "FaultKind", "FaultPlan"]


class FaultKind(Enum):
    """How a request goes wrong."""

    SLOW_DOWN = "slow_down"
    """503 SlowDown, with no effect."""
    TOO_MANY = "too_many"
    """429, with no effect."""
    INTERNAL = "internal"
    """500, with no effect."""
    DENIED = "denied"
    """403 AccessDenied, with no effect."""
    EXPIRED_TOKEN = "expired_token"
    """403 ExpiredToken to requests that carry `Fault.token`, with no effect."""
    MISSING = "missing"
    """404 NoSuchKey, with no effect."""
    TRUNCATED = "truncated"
    """A body that ends after `Fault.after_bytes` and claims to be whole."""
    CUT = "cut"
    """A connection that closes after `Fault.after_bytes` of the body."""
    LOST = "lost"
    """The request has its effect; the connection closes in place of an answer."""
    SLOW = "slow"
    """An answer that begins `Fault.delay_s` later."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule of what goes wrong.

    Parameters
    ----------
    kind
        What happens.
    requests
        Kinds of requests that it happens to, as they are counted; empty for all.
    key
        Part of the key that it happens to; empty for all.
    skip
        Matching requests that are answered well at first.
    times
        Matching requests that go wrong after those; None for all.
    after_bytes
        Of the body, for `TRUNCATED` and `CUT`.
    delay_s
        For `SLOW`.
    token
        Session token for `EXPIRED_TOKEN`.
    """

    kind: FaultKind
    requests: tuple[str, ...] = ()
    key: str = ""
    skip: int = 0
    times: int | None = 1
    after_bytes: int = 0
    delay_s: float = 0.0
    token: str = ""

    def matches(self, request: str, key: str, token: str) -> bool:
        """Whether it speaks of such a request."""
        return (
            (not self.requests or request in self.requests)
            and self.key in key
            and (self.kind is not FaultKind.EXPIRED_TOKEN or self.token == token)
        )


class FaultPlan:
    """Rules, and how often each has been met; the first that is due decides.

    Parameters
    ----------
    faults
        In order of precedence.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = tuple(faults)
        self._met = [0] * len(self._faults)

    def next(self, request: str, key: str, token: str) -> Fault | None:
        """Return what goes wrong with the request that has just arrived."""
        for place, fault in enumerate(self._faults):
            if not fault.matches(request, key, token):
                continue
            met = self._met[place]
            if fault.times is None or met < fault.skip + fault.times:
                self._met[place] += 1
                if met >= fault.skip:
                    return fault
        return None
