"""Many writers over an unreliable store, in time that only the seed decides."""
