//! Entry scripts that tests share, and a deployment of one.

/// Gives the names of the files.
pub const NAMES: &str = r"
import os

def run(mini_batch):
    return [os.path.basename(path) for path in mini_batch]
";

/// A deployment of `main.py` in the folder `code`, a mini-batch for each file.
pub const DEPLOYMENT: &str = "
type: model
model: {path: model}
code_configuration: {code: code, scoring_script: main.py}
environment: local
settings: {mini_batch_size: 1, retry_settings: {max_retries: 0}}
";

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

/// A table for [`PICKY`]: forty records with this `text`, but for those that have another.
pub fn picky_table(usual: &str, other: &[(usize, &str)]) -> String {
    let text = |n| other.iter().find(|(at, _)| *at == n).map_or(usual, |(_, text)| text);
    let records = (0..40).map(|n| format!("{n},{}\n", text(n)));
    std::iter::once("n,text\n".to_owned()).chain(records).collect()
}

/// Fails on a record of a table whose `text` is `bad`; gives `n` and `text` of the others.
pub const PICKY: &str = r#"
def run(mini_batch):
    if "bad" in list(mini_batch["text"].astype(str)):
        raise ValueError("a bad record")
    return [f"{n} {text}" for n, text in zip(mini_batch["n"], mini_batch["text"])]
"#;

/// Fails where it is imported to run; the check of the script before finds nothing.
pub const BROKEN: &str = "
import os

if 'AZUREML_BI_OUTPUT_PATH' in os.environ:
    raise RuntimeError('broken')

def run(mini_batch):
    return mini_batch
";

/// Gives `k` and `n` of each record of a group with the same `k`; fails on the group `bad`.
pub const GROUPED: &str = "
def run(mini_batch, context):
    key = context.partition_key_value['k']
    if key == 'bad':
        raise ValueError('a bad group')
    return [f'{key} {n}' for n in mini_batch['n']]
";
