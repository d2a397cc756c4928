"""Values, enumerations, errors and protocols shared by all packages. No I/O."""
