"""Jobs of prs from Python: hand one in, wait for it, read its result, look into what failed.

```python
import prs

job = prs.submit("job.yml", mini_batch_size=50)
job.wait()                          # a progress bar; raises where the job failed or items are missing
rows = job.dataframe()              # or job.result(), the path of the result file
prs.try_batch("job.yml")            # the script's run() in this interpreter, for breakpoints and %debug
```

The package runs the program `prs` and reads its JSON, and nothing else: no file of a run, no server. It
needs the standard library alone; `Job.dataframe` needs pandas. Entry scripts import `azureml_user`, not
this package.
"""

from prs._version import __version__
from prs.errors import (
    Canceled,
    Incomplete,
    JobError,
    JobFailed,
    JobFileError,
    Killed,
    ProgramMismatch,
    ProgramNotFound,
    PrsError,
    Unreachable,
    UsageError,
)
from prs.job import Job
from prs.parallel_run import ParallelRunConfig, ParallelRunStep
from prs.records import (
    DistinctError,
    FailedMiniBatch,
    FailedTry,
    Frame,
    ItemCounts,
    Log,
    MiniBatchCounts,
    Status,
)
from prs.servers import Fleet
from prs.submission import job, jobs, submit, submit_async
from prs.trial import TriedBatch, try_batch

__all__ = [
    "Canceled",
    "DistinctError",
    "FailedMiniBatch",
    "FailedTry",
    "Fleet",
    "Frame",
    "Incomplete",
    "ItemCounts",
    "Job",
    "JobError",
    "JobFailed",
    "JobFileError",
    "Killed",
    "Log",
    "MiniBatchCounts",
    "ParallelRunConfig",
    "ParallelRunStep",
    "ProgramMismatch",
    "ProgramNotFound",
    "PrsError",
    "Status",
    "TriedBatch",
    "Unreachable",
    "UsageError",
    "__version__",
    "job",
    "jobs",
    "submit",
    "submit_async",
    "try_batch",
]
