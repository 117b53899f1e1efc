"""Hot loops in Cython: many chunks per call, no GIL, every read checked against its bounds."""
