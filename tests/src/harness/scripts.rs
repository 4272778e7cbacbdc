//! Entry scripts that tests share.

/// Gives the names of the files. Holds the mini-batches from the second on until the mark `go`, and marks each as
/// `held` before.
pub const HOLDS: &str = r#"
import os
from marks import mark, wait_for

def run(mini_batch, context):
    print(f"looking at {context.minibatch_index}", flush=True)
    if context.minibatch_index >= 1:
        mark("held")
        wait_for("go")
    return [os.path.basename(path) for path in mini_batch]
"#;
