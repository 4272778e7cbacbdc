//! What the name of a log says: of which kind it is, and whose. The kinds are those that a user chooses by; a log that is of none, such as
//! the list of what there is, has none.

/// A kind of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// How the job ended.
    Result,
    /// What went wrong: the distinct errors, and tracebacks, process by process.
    Error,
    /// The counts over time.
    Progress,
    /// What the job's orchestrator and its nodes decided and did.
    System,
    /// What a process did, mini-batch by mini-batch.
    Process,
    /// What the script printed.
    Stdout,
    /// What it wrote to standard error.
    Stderr,
    /// What it said with its logger.
    EntryScript,
    /// What nodes used of their hosts.
    Perf,
}

impl LogKind {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 9] = [
        Self::Result,
        Self::Error,
        Self::Progress,
        Self::System,
        Self::Process,
        Self::Stdout,
        Self::Stderr,
        Self::EntryScript,
        Self::Perf,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::Progress => "progress",
            Self::System => "system",
            Self::Process => "process",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::EntryScript => "entry_script",
            Self::Perf => "perf",
        }
    }

    /// The kind that a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The folder whose folders are nodes, below the logs.
    fn of_nodes(self) -> Option<&'static str> {
        match self {
            Self::Result | Self::Progress => None,
            Self::Error => Some("user/error/"),
            Self::System | Self::Process => Some("sys/node/"),
            Self::Stdout => Some("user/stdout/"),
            Self::Stderr => Some("user/stderr/"),
            Self::EntryScript => Some("user/entry_script_log/"),
            Self::Perf => Some("perf/"),
        }
    }

    /// The folders that have logs of this kind: of a node, or of all.
    fn places(self, node: Option<u32>) -> Vec<Place> {
        let deep = |folder: &str| Place { folder: folder.to_owned(), is_deep: true };
        let flat = |folder: &str| Place { folder: folder.to_owned(), is_deep: false };
        match (self, node) {
            (_, Some(node)) => {
                self.of_nodes().map(|folder| deep(&format!("{folder}{node}/"))).into_iter().collect()
            }
            (Self::Result | Self::Progress, None) => vec![flat("")],
            (Self::Error, None) => vec![flat(""), flat("user/"), deep("user/error/")],
            (Self::System, None) => vec![deep("sys/")],
            (_, None) => self.of_nodes().map(deep).into_iter().collect(),
        }
    }
}

/// What the name of a log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogName<'a> {
    /// Of which kind it is.
    pub kind: Option<LogKind>,
    /// Of which node.
    pub node_id: Option<u32>,
    /// Of which process of it.
    pub process: Option<&'a str>,
}

impl<'a> LogName<'a> {
    /// Of the log `file`, below the logs.
    pub fn of(file: &'a str) -> Self {
        let of_node = |kind: LogKind| {
            let rest = file.strip_prefix(kind.of_nodes()?)?;
            let (node, name) = rest.split_once('/')?;
            Some((kind, node.parse().ok()?, name))
        };
        let by_node = [
            LogKind::Error,
            LogKind::Process,
            LogKind::Stdout,
            LogKind::Stderr,
            LogKind::EntryScript,
            LogKind::Perf,
        ];
        if let Some((kind, node_id, name)) = by_node.into_iter().find_map(of_node) {
            let process = name.split('.').next().filter(|_| kind != LogKind::Perf && !name.contains('/'));
            // Beside those of processes a node has logs of its own.
            let process = process.filter(|name| kind != LogKind::Process || name.starts_with("process"));
            let kind = if kind == LogKind::Process && process.is_none() { LogKind::System } else { kind };
            return Self { kind: Some(kind), node_id: Some(node_id), process };
        }
        let begins = [
            ("job_result", LogKind::Result),
            ("job_error", LogKind::Error),
            ("job_progress", LogKind::Progress),
            ("user/error", LogKind::Error),
            ("sys/", LogKind::System),
            ("perf/", LogKind::Perf),
        ];
        let kind = begins.into_iter().find(|(begin, _)| file.starts_with(begin)).map(|(_, kind)| kind);
        Self { kind, ..Self::default() }
    }
}

/// A folder that has logs that are wanted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Below the logs, with a `/` at its end; empty for that of the logs itself.
    pub(super) folder: String,
    /// Whether they may be in its folders, too.
    pub(super) is_deep: bool,
}

/// Which logs are wanted. Of each list that is not empty a log fits one.
#[derive(Debug, Clone, Default)]
pub struct LogChoice {
    /// Of which kinds.
    pub kinds: Vec<LogKind>,
    /// Of which nodes.
    pub nodes: Vec<u32>,
    /// Of processes of which names.
    pub processes: Vec<String>,
    /// What their names begin with.
    pub prefix: String,
    /// What stands in their names.
    pub text: String,
}

impl LogChoice {
    /// Whether the log `file` is wanted.
    pub fn fits(&self, file: &str) -> bool {
        let name = LogName::of(file);
        let is_one = |wanted: bool, is_any: bool| is_any || wanted;
        is_one(name.kind.is_some_and(|kind| self.kinds.contains(&kind)), self.kinds.is_empty())
            && is_one(name.node_id.is_some_and(|node| self.nodes.contains(&node)), self.nodes.is_empty())
            && is_one(
                name.process.is_some_and(|name| self.processes.iter().any(|process| process == name)),
                self.processes.is_empty(),
            )
            && file.starts_with(&self.prefix)
            && file.contains(&self.text)
    }

    /// Whether logs are chosen by more than where they are.
    pub fn is_filter(&self) -> bool {
        !(self.kinds.is_empty() && self.nodes.is_empty() && self.processes.is_empty() && self.text.is_empty())
    }

    /// The folder that all of them are in, with a `/` at its end; empty where that is the one of the logs itself.
    pub fn folder(&self) -> &str {
        self.prefix.rfind('/').map_or("", |at| &self.prefix[..=at])
    }

    /// Whether wanted logs may be in the folder.
    pub(super) fn may_be_in(&self, folder: &str) -> bool {
        let leads = |place: &Place| {
            place.folder.starts_with(folder) || (place.is_deep && folder.starts_with(&place.folder))
        };
        folder.starts_with(&self.prefix) && self.places().iter().any(leads)
    }

    /// The folders that may have such logs, in their order. No log is in two of them.
    pub(super) fn places(&self) -> Vec<Place> {
        let own = self.folder();
        if self.kinds.is_empty() && self.nodes.is_empty() {
            return vec![Place { folder: own.to_owned(), is_deep: true }];
        }
        let kinds = if self.kinds.is_empty() { &LogKind::ALL[..] } else { &self.kinds };
        let of_kind = |kind: &LogKind| {
            let all = self.nodes.iter().map(|node| Some(*node)).chain(self.nodes.is_empty().then_some(None));
            all.flat_map(|node| kind.places(node)).collect::<Vec<_>>()
        };
        // Of a folder and one around it the part that is in both.
        let within = |place: Place| {
            let is_around = place.is_deep && own.starts_with(&place.folder);
            let folder = if is_around { own.to_owned() } else { place.folder };
            folder.starts_with(own).then_some(Place { folder, ..place })
        };
        let mut places: Vec<Place> = kinds.iter().flat_map(of_kind).filter_map(within).collect();
        // Of the same folder the deep one comes first.
        places.sort_unstable_by(|a, b| (&a.folder, b.is_deep).cmp(&(&b.folder, a.is_deep)));
        let mut kept: Vec<Place> = Vec::new();
        for place in places {
            let is_in = |known: &Place| {
                known.folder == place.folder || (known.is_deep && place.folder.starts_with(&known.folder))
            };
            if !kept.iter().any(is_in) {
                kept.push(place);
            }
        }
        kept
    }
}

/// The words for all kinds, for messages.
pub fn log_kinds() -> String {
    LogKind::ALL.map(LogKind::as_str).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_logs_are() {
        use LogKind::{EntryScript, Error, Perf, Process, Progress, Result, Stderr, Stdout, System};
        for (file, kind, node_id, process) in [
            ("job_result.txt", Some(Result), None, None),
            ("job_error.txt", Some(Error), None, None),
            ("job_progress_overview.20261121.txt", Some(Progress), None, None),
            ("readme.txt", None, None, None),
            ("user/error.txt", Some(Error), None, None),
            ("user/error/17/process003.txt", Some(Error), Some(17), Some("process003")),
            ("user/stdout/17/process003.stdout.txt", Some(Stdout), Some(17), Some("process003")),
            ("user/stderr/0/process003.stderr.txt", Some(Stderr), Some(0), Some("process003")),
            ("user/entry_script_log/0/process003.log.txt", Some(EntryScript), Some(0), Some("process003")),
            ("user/mlruns/0/a", None, None, None),
            ("sys/node/3/process000.txt", Some(Process), Some(3), Some("process000")),
            ("sys/node/3/process000.profile", Some(Process), Some(3), Some("process000")),
            ("sys/node/3/_main.txt", Some(System), Some(3), None),
            ("sys/node/x/_main.txt", Some(System), None, None),
            ("sys/master_role.txt", Some(System), None, None),
            ("perf/3/os/2026112112/processes_01", Some(Perf), Some(3), None),
        ] {
            assert_eq!(LogName::of(file), LogName { kind, node_id, process }, "{file}");
        }
        assert!(LogKind::ALL.into_iter().all(|kind| LogKind::parse(kind.as_str()) == Some(kind)));
    }

    fn choice(kinds: &[LogKind], nodes: &[u32], prefix: &str) -> LogChoice {
        let (kinds, nodes, prefix) = (kinds.to_vec(), nodes.to_vec(), prefix.to_owned());
        LogChoice { kinds, nodes, prefix, ..LogChoice::default() }
    }

    #[test]
    fn no_more_folders_are_listed_than_have_what_is_wanted() {
        use LogKind::{Error, Progress, Result, Stdout, System};
        for (wanted, expected) in [
            (choice(&[], &[], ""), &[("", true)][..]),
            (choice(&[], &[], "user/std"), &[("user/", true)]),
            (choice(&[Stdout], &[], ""), &[("user/stdout/", true)]),
            (choice(&[Stdout], &[17, 9], ""), &[("user/stdout/17/", true), ("user/stdout/9/", true)]),
            (choice(&[Result, Progress], &[], ""), &[("", false)]),
            (choice(&[Result], &[17], ""), &[]),
            (choice(&[Error], &[], ""), &[("", false), ("user/", false), ("user/error/", true)]),
            (choice(&[Error], &[], "user/error/7/"), &[("user/error/7/", true)]),
            (choice(&[Stdout], &[], "sys/"), &[]),
            (choice(&[System, LogKind::Process], &[], ""), &[("sys/", true)]),
            (
                choice(&[], &[3], ""),
                &[
                    ("perf/3/", true),
                    ("sys/node/3/", true),
                    ("user/entry_script_log/3/", true),
                    ("user/error/3/", true),
                    ("user/stderr/3/", true),
                    ("user/stdout/3/", true),
                ],
            ),
        ] {
            let places: Vec<_> =
                wanted.places().into_iter().map(|place| (place.folder, place.is_deep)).collect();
            let places: Vec<_> = places.iter().map(|(folder, is_deep)| (&**folder, *is_deep)).collect();
            assert_eq!(places, expected, "{wanted:?}");
        }
    }

    #[test]
    fn logs_are_chosen_by_their_names() {
        let files =
            ["user/stdout/3/process001.stdout.txt", "user/stderr/3/process002.stderr.txt", "job_error.txt"];
        let of = |change: fn(&mut LogChoice)| {
            let mut wanted = LogChoice::default();
            change(&mut wanted);
            (
                files.map(|file| wanted.fits(file)),
                ["user/", "user/stderr/", "sys/"].map(|folder| wanted.may_be_in(folder)),
            )
        };
        assert_eq!(of(|_| {}), ([true; 3], [true; 3]));
        assert_eq!(of(|wanted| wanted.nodes = vec![3]), ([true, true, false], [true; 3]));
        assert_eq!(
            of(|wanted| wanted.processes = vec!["process001".into()]),
            ([true, false, false], [true; 3])
        );
        assert_eq!(
            of(|wanted| wanted.prefix = "user/std".into()),
            ([true, true, false], [false, true, false])
        );
        assert_eq!(of(|wanted| wanted.text = "err".into()), ([false, true, true], [true; 3]));
        let kinds = |wanted: &mut LogChoice| wanted.kinds = vec![LogKind::Stdout, LogKind::Error];
        assert_eq!(of(kinds), ([true, false, true], [true, false, false]));
    }
}
