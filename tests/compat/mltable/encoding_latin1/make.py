"""Writes the data in their encoding."""

TEXT = "größe,städte\r\n" + "".join(f"{n},Zürich é {n}\r\n" for n in range(100))
with open("a.csv", "wb") as file:
    file.write(TEXT.encode("latin-1"))
