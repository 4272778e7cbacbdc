"""Says the mean of each sensor's readings, one file a sensor. It fails in two ways, on purpose.

A failure costs one try of one mini-batch. What passes by itself is made good by the next try, and nothing
has to be done about it; what does not pass fails every try, and its items are missing from the result.
"""

from pathlib import Path
from statistics import mean


def run(mini_batch, context):
    """Returns "<file>: <mean>" for every path of the mini-batch."""
    # Stands for a service that is busy: the second try of the mini-batch gets through.
    if context.minibatch_index == 1 and context.retry_count == 0:
        raise ConnectionError("the calibration service is busy")
    return [f"{Path(path).name}: {mean(readings(path)):.2f}" for path in mini_batch]


def readings(path):
    """The numbers of a file, one a line."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [float(line) for line in lines]
