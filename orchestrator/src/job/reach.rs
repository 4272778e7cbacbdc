//! Whether others reach a server of the fleet that a worker does not: then they go on with the job, and it gives way.
//!
//! Nodes tell with each heartbeat which servers did not answer them. An idle worker tells nothing, and counts unless it was a
//! node of the job a moment ago that did not reach the server either.

use std::time::Duration;

use prs_common::ledger::{IdleWorker, LedgerError, NodeView, ObstacleKind};

use super::context::JobContext;
use super::init_failures::is_useless;
use super::membership::LOOKS_WITHIN;

/// How long a worker that did not reach a server is not tried again.
const NOT_AGAIN_WITHIN: Duration = Duration::from_mins(2);

/// A server without which a job does not go on, beside the ledger, without which nobody has a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// The broker.
    Broker,
    /// The storage of the fleet.
    Storage,
    /// The store of an input.
    Inputs,
}

impl Server {
    /// The name of it that nodes report ([`NodeReport::unavailable`](prs_common::ledger::NodeReport::unavailable)).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Storage => "storage",
            Self::Inputs => "inputs",
        }
    }
}

impl From<Server> for ObstacleKind {
    fn from(server: Server) -> Self {
        match server {
            Server::Broker => Self::Broker,
            Server::Storage => Self::Storage,
            Server::Inputs => Self::Inputs,
        }
    }
}

/// Who may go on with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Others {
    /// A node of it.
    pub nodes: bool,
    /// A worker that was a node of it: while a job ends its nodes have left, and those who served it still compete for its
    /// lease.
    pub former: bool,
    /// An idle worker of its target.
    pub idle: bool,
    /// Whether the job has a seat for that.
    pub seats: bool,
}

impl Others {
    /// Whether any of them may watch over the job, of which it is decided that it ends or not: nobody needs a seat to end it.
    pub(crate) fn may_watch(self, ends: bool) -> bool {
        self.nodes || (self.idle && (self.seats || ends)) || (self.former && ends)
    }
}

/// Who reaches `server` beside `worker`, which serves `job`.
pub async fn others_reach(job: &JobContext, worker: &str, server: Server) -> Result<Others, LedgerError> {
    if !job.policy.has_others {
        return Ok(Others::default());
    }
    let mut nodes = job.ledger.nodes().await?;
    for node in &mut nodes {
        node.left = !job.policy.is_present(node);
    }
    let idle = job.membership.idle_workers(&job.spec.compute_target, LOOKS_WITHIN).await?;
    Ok(others(job.spec.node_count, &nodes, &idle, (worker, server.as_str())))
}

fn others(seats: u32, nodes: &[NodeView], idle: &[IdleWorker], (worker, server): (&str, &str)) -> Others {
    let reaches = |node: &NodeView| !node.report.unavailable.iter().any(|away| away == server);
    let may_go_on =
        |node: &&NodeView| node.info.worker != worker && !is_useless(&node.report) && reaches(node);
    let has_not_tried = |idle: &&IdleWorker| {
        let mut own = nodes.iter().filter(|node| node.info.instance == idle.info.instance);
        idle.info.version == env!("CARGO_PKG_VERSION")
            && own.all(|node| !is_useless(&node.report) && (reaches(node) || node.silent > NOT_AGAIN_WITHIN))
    };
    let mut present = nodes.iter().filter(|node| !node.left);
    Others {
        seats: present.clone().count() < seats as usize,
        nodes: present.any(|node| may_go_on(&node)),
        former: nodes.iter().any(|node| node.left && may_go_on(&node)),
        idle: idle.iter().any(|idle| has_not_tried(&idle)),
    }
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::{NodeInfo, NodeReport};

    use super::*;

    fn info(worker: &str) -> NodeInfo {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        NodeInfo { worker: worker.to_owned(), instance: worker.to_owned(), version, ..NodeInfo::default() }
    }

    fn node(worker: &str, change: impl FnOnce(&mut NodeView)) -> NodeView {
        let report = NodeReport::default();
        let mut node =
            NodeView { node_id: 0, info: info(worker), report, silent: Duration::ZERO, left: false };
        change(&mut node);
        node
    }

    #[test]
    fn others_go_on_unless_they_are_known_not_to() {
        let away = |node: &mut NodeView| node.report.unavailable = vec!["broker".to_owned()];
        let gone = |node: &mut NodeView| {
            away(node);
            node.left = true;
        };
        let useless = |node: &mut NodeView| node.report.gave_up = true;
        let idle = |worker: &str| IdleWorker { info: info(worker), silent: Duration::ZERO };
        let own = || node("a", away);
        let none = Others::default();
        let (nodes, both) = (Others { nodes: true, ..none }, Others { idle: true, seats: true, ..none });
        // Of a job of two nodes, one of which asks.
        let table = [
            (vec![own()], vec![], Others { seats: true, ..none }),
            (vec![own(), node("b", |_| {})], vec![], nodes),
            (vec![own(), node("b", away)], vec![], none),
            (
                vec![own(), node("b", |node| node.report.unavailable = vec!["storage".to_owned()])],
                vec![],
                nodes,
            ),
            (vec![own(), node("b", useless)], vec![], none),
            (
                vec![own(), node("b", |node| node.left = true)],
                vec![],
                Others { seats: true, former: true, ..none },
            ),
            (vec![own()], vec![idle("b")], both),
            (vec![own(), node("c", away)], vec![idle("b")], Others { idle: true, ..none }),
            (vec![own(), node("b", gone)], vec![idle("b")], Others { seats: true, ..none }),
            (
                vec![
                    own(),
                    node("b", |node| {
                        gone(node);
                        node.silent = 2 * NOT_AGAIN_WITHIN;
                    }),
                ],
                vec![idle("b")],
                both,
            ),
            (
                vec![
                    own(),
                    node("b", |node| {
                        useless(node);
                        node.left = true;
                    }),
                ],
                vec![idle("b")],
                Others { seats: true, ..none },
            ),
        ];
        for (nodes, idle, expected) in table {
            assert_eq!(others(2, &nodes, &idle, ("a", "broker")), expected, "{nodes:?} {idle:?}");
        }
    }

    #[test]
    fn a_job_that_ends_needs_no_seat_for_who_goes_on_with_it() {
        let none = Others::default();
        // While it runs, and while it ends.
        let table = [
            (none, [false, false]),
            (Others { nodes: true, ..none }, [true, true]),
            (Others { idle: true, ..none }, [false, true]),
            (Others { idle: true, seats: true, ..none }, [true, true]),
            (Others { seats: true, ..none }, [false, false]),
            (Others { former: true, ..none }, [false, true]),
        ];
        for (others, expected) in table {
            assert_eq!([false, true].map(|ends| others.may_watch(ends)), expected, "{others:?}");
        }
    }
}
