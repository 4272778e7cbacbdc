//! When a node gives way: it does not reach a server that others reach, so it leaves its job to them.
//!
//! Without storage it cannot bring its rows anywhere, and what it has in hand goes back to the queue for whichever node is
//! there, or for an idle worker that takes its seat. Without the broker it gets nothing to do: that the broker gives what it had
//! to others needs no help, so it leaves only for a worker that takes its seat.

use std::time::Duration;

use prs_orchestrator::JobContext;
use prs_orchestrator::job::reach::{Others, Server, others_reach};

use crate::metrics::{Dependency, Metrics};
use crate::node_settings::NodeEnd;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Waits until the node had better leave the job to others, and asks it to. Returns the server that it does not reach.
pub(super) async fn cut_off(job: &JobContext, worker: &str, metrics: &Metrics, end: &NodeEnd) -> Server {
    loop {
        tokio::time::sleep(INTERVAL).await;
        for (server, dependency) in
            [(Server::Storage, Dependency::Storage), (Server::Broker, Dependency::Broker)]
        {
            if metrics.away_for(dependency) < job.policy.gives_way {
                continue;
            }
            // Where the ledger does not answer either, nothing is known of others.
            let Ok(others) = others_reach(job, worker, server).await else { continue };
            if !gives_way(server, others) {
                continue;
            }
            let name = server.as_str();
            tracing::warn!(
                job = job.id,
                "this node does not reach the {name}, and others do; it leaves the job to them"
            );
            match server {
                // What runs could not be stored.
                Server::Storage => end.stop.cancel(),
                _ => end.drain.cancel(),
            }
            return server;
        }
    }
}

/// Whether a node that does not reach `server` leaves for those others.
fn gives_way(server: Server, others: Others) -> bool {
    match server {
        Server::Storage => others.nodes || others.idle,
        Server::Broker => others.idle,
        // Of another input the node may have the data.
        Server::Inputs => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_leaves_for_those_who_can_do_what_it_cannot() {
        let none = Others::default();
        let (nodes, idle) = (Others { nodes: true, ..none }, Others { idle: true, ..none });
        let table = [
            (Server::Storage, [false, true, true]),
            (Server::Broker, [false, false, true]),
            (Server::Inputs, [false, false, false]),
        ];
        for (server, expected) in table {
            let leaves = [none, nodes, idle].map(|others| gives_way(server, others));
            assert_eq!(leaves, expected, "{server:?}");
        }
    }
}
