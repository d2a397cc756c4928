"""Facts and talk of two authors who did not see the program, for `benchmarks.sessions`: JSON lines, a folder each."""
