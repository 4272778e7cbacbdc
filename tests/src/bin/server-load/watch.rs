//! Watchers of a job that runs elsewhere.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::client::{Connection, Failed, events};

/// Between two looks for a job.
const LOOK: Duration = Duration::from_millis(200);
/// Longer than any job is watched.
const LONGEST: Duration = Duration::from_hours(1);

/// Watches the first job that runs, with so many watchers, and prints how many parts of pages they got.
pub(crate) fn watch(url: &str, watchers: &str) -> Result<(), Failed> {
    let address: SocketAddr = url.trim_start_matches("http://").parse()?;
    let watchers: usize = watchers.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (closes, is_closed) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            let _ = closes.send(());
        });
        tokio::select! {
            watched = all(address, watchers) => watched,
            _ = is_closed => Ok(()),
        }
    })
}

async fn all(address: SocketAddr, watchers: usize) -> Result<(), Failed> {
    let mut connection = Connection::open(address).await?;
    let id = loop {
        let (_, _, body) = connection.get("/api/v1/jobs?state=active&limit=1", &[]).await?;
        let list: Value = serde_json::from_slice(&body)?;
        if let Some(id) = list["value"][0]["job_id"].as_str() {
            break id.to_owned();
        }
        tokio::time::sleep(LOOK).await;
    };
    let mut streams = JoinSet::new();
    for _ in 0..watchers {
        let path = format!("/jobs/{id}/live");
        streams.spawn(events(address, path, "parts", Instant::now() + LONGEST));
    }
    let mut parts = 0;
    while let Some(came) = streams.join_next().await {
        parts += came??.len();
    }
    println!("{}", serde_json::json!({ "watchers": watchers, "parts": parts }));
    Ok(())
}
