"""Services of the process itself: clock, lock, log file, garbage collection, hangup."""
