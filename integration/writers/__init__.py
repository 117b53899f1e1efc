"""Real processes that append to and delete from one dataset, on a bad line, some of them killed."""
