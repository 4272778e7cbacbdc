"""Jobs of prs from Python: hand one in, wait for it, read its result, look into what failed.

```python
import prs

job = prs.submit("job.yml", mini_batch_size=50)
job.wait()                          # a progress bar; raises where the job failed or items are missing
rows = job.dataframe()              # or job.result(), the path of the result file
prs.try_batch("job.yml")            # the script's run() in this interpreter, for breakpoints and %debug

team = prs.connect("https://prs.example.org")
team.submit("job.yml").wait()       # or prs.submit("job.yml", server="https://prs.example.org")
```

The package runs the program `prs` and reads its JSON, or asks a server of prs, for which it needs no program;
it reads no file of a run. It needs the standard library alone; `Job.dataframe` needs pandas. Entry scripts
import `azureml_user`, not this package."""

from prs._version import __version__
from prs.errors import (
    AccessDenied,
    Canceled,
    Incomplete,
    JobError,
    JobFailed,
    JobFileError,
    Killed,
    Problem,
    ProgramMismatch,
    ProgramNotFound,
    PrsError,
    TooManyRequests,
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
from prs.server import Server, connect
from prs.servers import Fleet
from prs.submission import invoke, job, jobs, submit, submit_async
from prs.trial import TriedBatch, try_batch

__all__ = [
    "AccessDenied",
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
    "Problem",
    "ProgramMismatch",
    "ProgramNotFound",
    "PrsError",
    "Server",
    "Status",
    "TooManyRequests",
    "TriedBatch",
    "Unreachable",
    "UsageError",
    "__version__",
    "connect",
    "invoke",
    "job",
    "jobs",
    "submit",
    "submit_async",
    "try_batch",
]
