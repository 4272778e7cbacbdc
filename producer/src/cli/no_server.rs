//! Arguments of a server that the program was built without (feature `serve`): it takes any, and answers that it has none.

use std::ffi::OsString;

use clap::Args;

use super::WhereaboutsArguments;

/// Arguments of `serve`, and of `take-up`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
    /// Options of a program that has a server.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    _words: Vec<OsString>,
}

pub(crate) type TakeUp = Serve;
