//! The terminal of the user: what is printed and logged, and what the user wants meanwhile. It knows no command and no job.
//!
//! | file | duty |
//! |---|---|
//! | `output` | data on standard output, everything else on standard error |
//! | `shape` | what of a record is printed, and how |
//! | `colours` | of states and errors |
//! | `table` | columns side by side |
//! | `fit` | one line of words and a bar, for a width |
//! | `log` | what is logged |
//! | `visible` | names and messages of others, which a terminal does not obey |
//! | `signals` | Ctrl-C, SIGTERM and SIGHUP |

pub(crate) mod colours;
pub(crate) mod fit;
pub(crate) mod log;
pub(crate) mod output;
pub(crate) mod shape;
pub(crate) mod signals;
pub(crate) mod table;
pub(crate) mod visible;
