"""The files that the table names, in their order."""

FILES = ["a.txt", "b.txt", "deep/c.txt", "expected.py", "b.txt"]
