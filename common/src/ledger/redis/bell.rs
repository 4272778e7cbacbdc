//! The bell of compute targets: what is published on their channels, over a connection of its own.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use redis::RedisResult;
use redis::aio::PubSub;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use crate::ledger::Bell;

/// How long an attempt to listen may take.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the next attempt.
const PAUSE: Duration = Duration::from_secs(5);

/// Listens to channels, again and again where the connection is lost.
pub(super) struct RedisBell {
    pub(super) connection: Connection,
    pub(super) channels: Vec<String>,
    pub(super) listening: Option<PubSub>,
}

impl std::fmt::Debug for RedisBell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisBell").field("channels", &self.channels).finish_non_exhaustive()
    }
}

impl RedisBell {
    async fn listen(&self) -> RedisResult<PubSub> {
        let mut listening = self.connection.address().listener.get_async_pubsub().await?;
        for channel in &self.channels {
            listening.subscribe(channel).await?;
        }
        Ok(listening)
    }
}

#[async_trait]
impl Bell for RedisBell {
    async fn rings(&mut self) {
        loop {
            if let Some(listening) = &mut self.listening {
                if listening.on_message().next().await.is_some() {
                    return;
                }
                self.listening = None;
            }
            match timeout(LISTEN_TIMEOUT, self.listen()).await {
                Ok(Ok(listening)) => {
                    self.listening = Some(listening);
                    continue;
                }
                Ok(Err(cause)) => {
                    tracing::debug!(ledger = %self.connection.address(), %cause, "new jobs are seen a little later");
                }
                Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }
}
