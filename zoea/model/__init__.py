"""What every part speaks: values, words, errors, protocols. Nothing here does anything or knows of I/O."""
