//! Real programs in fresh folders.
//!
//! A [`Job`] is a folder with a script, inputs and a job file; submitting it starts the real `prs` with
//! the real Python. What came of it is read as a user would: exit code, standard output, the files of the run
//! folder. Scripts and tests wait for each other through [marks](Job::marks), files in a folder that both know.
//!
//! Two variables name what is tested: `PRS_TEST_BIN_DIR`, the folder with `prs` and `libprs_process.so` (by itself that of
//! the build), and `PRS_TEST_PYTHON`, an interpreter that has pandas and numpy (by itself `.venv/bin/python`).

mod cgroup;
mod ended;
mod fleet;
mod folders;
pub mod identity;
mod job;
mod live;
mod oracle;
mod other_user;
mod packages;
mod processes;
mod programs;
mod random;
mod reasons;
mod records;
mod run_folder;
mod scripts;
mod sealed;
pub mod served;
pub mod servers;
mod simulated;
mod simulated_fleet;
mod table;
mod tmpfs;
mod web;

pub use cgroup::Cgroup;
pub use ended::{Ended, says};
pub use fleet::{Fleet, FleetSettings, Stored};
pub use folders::{copy_compat, copy_folder};
pub use job::Job;
pub use live::Live;
pub use oracle::{expected_by_python, made_once};
pub use other_user::{another_user_reads, as_another_user};
pub use packages::{bring_packages, host_of, installing, stop_in_installer};
pub use processes::{Found, having_token, is_running};
pub use programs::{bin_dir, pytest, python, shown_lines};
pub use random::Random;
pub use reasons::reasons_of;
pub use run_folder::RunFolder;
pub use scripts::{BROKEN, DEPLOYMENT, GROUPED, HOLDS, NAMES, PICKY, picky_table};
pub use sealed::sealed;
pub use servers::Redis;
pub use servers::s3::{LISTS_ALL, LISTS_FOLDER};
pub use simulated::{Simulated, Simulation};
pub use simulated_fleet::SimulatedFleet;
pub use table::{Row, parse_csv};
pub use tmpfs::Tmpfs;
pub use web::{Answer, Web};
