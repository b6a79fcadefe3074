"""Worked examples of what other packages can add to NoMemory; docs/extending.md explains them."""
