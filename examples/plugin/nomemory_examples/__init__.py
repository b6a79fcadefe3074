"""Examples of extensions for NoMemory, described in docs/extending.md."""
