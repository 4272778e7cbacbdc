"""The files that the table names, in their order."""

FILES = ["b.txt", "deep/c.txt", "deep/d.txt"]
