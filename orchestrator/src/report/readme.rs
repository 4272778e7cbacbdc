//! `readme.txt`: what is where below `logs/`.

/// The text.
pub const TEXT: &str = "\
The logs of a prs job. Start with job_result.txt.

job_result.txt                            how the job ended, why, and which file to open next
job_progress_overview.<yyyyMMdd>.txt      scheduled, processed and failed mini-batches over time, a file a day
job_error.txt                             the distinct errors of the entry script, with counts and an example
job_errors.json                           the same for programs, with a traceback each; prs errors shows it
sys/master_role.txt                       what the orchestrator saw and decided
sys/error/                                errors of prs itself
sys/job_report/processed_mini-batches.csv a row for every try of a mini-batch
sys/job_report/process_summary.csv        sums over the tries of each process
sys/job_report/node_summary.csv           sums over the tries of each node
sys/node/<node_id>/_main.txt              what the node did: processes started, ended, replaced
sys/node/<node_id>/<process_name>.txt     the mini-batches of a process: start, durations, items
sys/node/<node_id>/<process_name>.profile figures of cProfile, with --profiling_module cProfile
user/entry_script_log/<node_id>/<process_name>.log.txt   what EntryScript().logger was told
user/stdout/<node_id>/<process_name>.stdout.txt          standard output, and Python's root logger
user/stderr/<node_id>/<process_name>.stderr.txt          standard error
user/error/<node_id>/<process_name>.txt                  full tracebacks
user/error.txt                                           the same summary as job_error.txt
";
