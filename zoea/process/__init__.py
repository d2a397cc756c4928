"""Services of the process: clock, workspace lock, log file, garbage collection, hangup."""
