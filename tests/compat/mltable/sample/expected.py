"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

M = (1 << 64) - 1


def mix(number):
    number = (number + 0x9E3779B97F4A7C15) & M
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & M
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & M
    return number ^ number >> 31


def is_drawn(name, record, seed, probability):
    """Whether the record with this number of the file `name` below the table's folder is in the sample."""
    mixed = mix(seed & M)
    for byte in name.encode():
        mixed = mix(mixed ^ byte)
    return mix(mixed ^ mix(record)) >> 11 < round(probability * 2**53)


def table(name, skipped):
    frame = pd.read_csv(name)
    drawn = [is_drawn(name, record, -3, 0.4) for record in range(len(frame))]
    frame = frame[drawn]
    frame = frame[frame.index >= skipped]
    return frame[(frame.id != 7) & (frame.id < 120)][["id"]]


FRAMES = [table("a.csv", 5), table("b.csv", 0)]
