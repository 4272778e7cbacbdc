//! Tokens: what a program shows a server of prs to say who it is.
//!
//! | file | duty |
//! |---|---|
//! | `role` | what a token allows |
//! | `text` | the token as its owner has it |
//! | `entry` | what the registry keeps of it, and who shows it |
//! | `cache` | what was read a moment ago |
//! | `uses` | which tokens were shown today |
//! | `session_keys` | keys with which servers sign the sessions of browsers |
//!
//! The registry has an object for each, `registry/tokens/<id>` in the storage of a fleet and `.registry/tokens/<id>` beside
//! the runs of this machine. It is written when the token is created, on condition that there is none, and once more when the
//! token is revoked and once on each day on which it is shown to a server, on condition that it is the object that was read. A token itself is kept nowhere. A program that may write there
//! may create tokens: the commands ask for no right beyond that to the storage.

mod cache;
mod entry;
mod role;
mod session_keys;
mod text;
mod uses;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::backoff::Backoff;
use prs_common::hexadecimal::{bytes_of, hexadecimal};
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt, Version};
use prs_common::timestamp::format_us;
use subtle::ConstantTimeEq;

use crate::failure::Failure;
use crate::homes::{Whereabouts, registry};

use cache::Cache;
use entry::{ANY, StoredToken};
use text::{Presented, id_in, is_id};
use uses::Uses;

pub use entry::{Principal, Token, TokenState};
pub use role::Role;
pub use session_keys::SessionKeys;
pub use text::Secret;

/// What the keys of all tokens begin with.
const FOLDER: &str = "tokens/";
/// Tokens that are read side by side.
const READ_AT_ONCE: usize = 16;
/// Attempts at a change while others change the same token, and the pauses between them.
const ATTEMPTS: usize = 20;
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// Characters of a name at most.
const LONGEST_NAME: usize = 64;
/// How long a token may live, where it expires: ten years.
const LONGEST_LIFE: Duration = Duration::from_hours(3650 * 24);

/// What is to become a token.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Who or what will have it, for people.
    pub name: String,
    /// What it is to allow.
    pub role: Role,
    /// Of the role `invoke` the endpoints, or `*` for all; none for others.
    pub endpoints: Vec<String>,
    /// How long it is taken; nothing for good.
    pub lifetime: Option<Duration>,
}

/// Who creates a token.
#[derive(Debug, Clone, Copy)]
pub struct Creator<'a> {
    /// Their name.
    pub name: &'a str,
    /// The id of their token, where they have one.
    pub id: Option<&'a str>,
}

impl<'a> From<&'a str> for Creator<'a> {
    fn from(name: &'a str) -> Self {
        Self { name, id: None }
    }
}

/// Why a token that was shown is not taken. No message says anything of a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It has not the form of a token.
    #[error("this is no token of prs: one is prs_ID_SECRET_CHECKSUM, as prs token create prints it")]
    Malformed,
    /// A part of it is another.
    #[error("the token is not what prs token create printed, for its checksum is another: copy all of it")]
    Mistyped,
    /// There is none of its id, or its secret is another.
    #[error(
        "no such token is known in {place}: it may be one of another fleet; prs token list shows the tokens there are"
    )]
    Unknown {
        /// The registry.
        place: String,
    },
    /// Its time is over.
    #[error("token {id} expired at {}: prs token create makes another", format_us(*.at_us))]
    Expired {
        /// Its id.
        id: String,
        /// When, microseconds since 1970.
        at_us: u64,
    },
    /// It was revoked.
    #[error("token {id} was revoked at {}: prs token create makes another", format_us(*.at_us))]
    Revoked {
        /// Its id.
        id: String,
        /// When, microseconds since 1970.
        at_us: u64,
    },
    /// The store does not say what it knows.
    #[error("cannot look the token up: {0}")]
    Store(#[source] StorageError),
    /// What the store says cannot be understood.
    #[error("{place} is damaged ({reason}): revoke the token by removing it, and create another")]
    Damaged {
        /// The object.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Refusal {
    /// Whether who shows it may be guessing: whose token expired or was revoked had one.
    pub fn is_of_guess(&self) -> bool {
        !self.is_of_store() && !matches!(self, Self::Expired { .. } | Self::Revoked { .. })
    }

    /// Whether the store is at fault, and not what was shown.
    pub fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(_) | Self::Damaged { .. })
    }
}

/// The tokens of a registry. Clones share what was read a moment ago.
#[derive(Debug, Clone)]
pub struct Tokens {
    storage: Arc<dyn Storage>,
    /// The folder of runs beside which the registry is, where it is on this machine.
    runs: Option<PathBuf>,
    cache: Arc<Cache>,
    uses: Arc<Uses>,
}

impl Tokens {
    /// Those of the fleet, or those beside the runs of this machine.
    ///
    /// # Errors
    /// The storage cannot be used.
    pub async fn open(whereabouts: &Whereabouts) -> Result<Self, Failure> {
        let storage = registry::storage_of(whereabouts).await?;
        let runs = whereabouts.urls.is_none().then(|| whereabouts.runs.clone());
        Ok(Self { storage, runs, cache: Arc::default(), uses: Arc::default() })
    }

    /// Creates a token, for `by`. The secret is not to be had again.
    ///
    /// # Errors
    /// What is said of it does not fit together, or it cannot be stored.
    pub async fn create<'a>(
        &self,
        new: &NewToken,
        by: impl Into<Creator<'a>>,
        now_us: u64,
    ) -> Result<(Token, Secret), Failure> {
        let by = by.into();
        new.check().map_err(Failure::wrong)?;
        if let Some(runs) = &self.runs {
            registry::make(runs)?;
        }
        // Another token may have the id, which then is drawn again.
        loop {
            let (id, secret) = Secret::make();
            let expires_at = new.lifetime.map(|lifetime| now_us + lifetime.as_micros() as u64);
            let entry = StoredToken {
                sha256: secret.digest(),
                name: new.name.clone(),
                role: new.role,
                endpoints: new.endpoints.clone(),
                created_at: now_us,
                created_by: by.name.to_owned(),
                created_by_id: by.id.map(str::to_owned),
                last_used_on: None,
                expires_at,
                revoked_at: None,
                others: serde_json::Map::new(),
            };
            match self.storage.put(&key(&id), entry.bytes().into(), PutMode::Create).await {
                Ok(_) => return Ok((Token::of(&id, entry), secret)),
                Err(error) if error.kind == StorageErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::server(error)),
            }
        }
    }

    /// Enters the token `text`, which was made elsewhere, with the role `admin` and for good; for `by`. One that is there
    /// stays as it is, also where it was revoked.
    ///
    /// # Errors
    /// It has not the form of a token, another one has its id, or it cannot be stored.
    pub async fn enter(&self, text: &str, name: &str, by: &str, now_us: u64) -> Result<Token, Failure> {
        let Presented { id, digest } = Presented::read(text).map_err(Failure::usage)?;
        if let Some(runs) = &self.runs {
            registry::make(runs)?;
        }
        let entry = StoredToken {
            sha256: hexadecimal(&digest),
            name: name.to_owned(),
            role: Role::Admin,
            endpoints: Vec::new(),
            created_at: now_us,
            created_by: by.to_owned(),
            created_by_id: None,
            last_used_on: None,
            expires_at: None,
            revoked_at: None,
            others: serde_json::Map::new(),
        };
        match self.storage.put(&key(id), entry.bytes().into(), PutMode::Create).await {
            Ok(_) => return Ok(Token::of(id, entry)),
            Err(error) if error.kind == StorageErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::server(error)),
        }
        match self.read(id).await.map_err(of_store)? {
            Some((known, _)) if known.sha256 == entry.sha256 => Ok(Token::of(id, known)),
            _ => Err(Failure::wrong(format!(
                "another token has the id {id}: prs token generate makes another"
            ))),
        }
    }

    /// Whether there is a token that is taken at `now_us`.
    ///
    /// # Errors
    /// The store fails.
    pub async fn is_any_active(&self, now_us: u64) -> Result<bool, Failure> {
        let (tokens, _) = self.list().await?;
        Ok(tokens.iter().any(|token| token.state(now_us) == TokenState::Active))
    }

    /// The keys with which all servers over this registry sign sessions.
    pub fn session_keys(&self) -> SessionKeys {
        SessionKeys::new(Arc::clone(&self.storage), self.runs.clone())
    }

    /// All tokens, the newest first; and what is wrong with those that cannot be read.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list(&self) -> Result<(Vec<Token>, Vec<Refusal>), Failure> {
        let objects: Vec<_> = self.storage.list(FOLDER, "").try_collect().await.map_err(Failure::server)?;
        let ids: Vec<String> = objects
            .iter()
            .filter_map(|object| object.key.strip_prefix(FOLDER).filter(|id| is_id(id)).map(str::to_owned))
            .collect();
        let reads = ids.iter().map(|id| async move { (id, self.read(id).await) });
        let reads: Vec<_> = stream::iter(reads.collect::<Vec<_>>()).buffered(READ_AT_ONCE).collect().await;
        let (mut tokens, mut damaged) = (Vec::new(), Vec::new());
        for (id, read) in reads {
            match read {
                Ok(Some((entry, _))) => tokens.push(Token::of(id, entry)),
                Ok(None) => {}
                Err(Refusal::Store(error)) => return Err(Failure::server(error)),
                Err(error) => damaged.push(error),
            }
        }
        tokens.sort_by(|one, other| (other.created_us, &other.id).cmp(&(one.created_us, &one.id)));
        Ok((tokens, damaged))
    }

    /// Revokes the token with this id, or this token; one that was revoked before stays as it is.
    ///
    /// # Errors
    /// There is none, or it cannot be stored.
    pub async fn revoke(&self, given: &str, now_us: u64) -> Result<Token, Failure> {
        // What was given may be a secret, which stands in no message.
        let id = id_in(given).ok_or_else(|| {
            Failure::wrong(
                "this is not the id of a token, which has 12 hexadecimal digits: prs token list shows them",
            )
        })?;
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        for _ in 0..ATTEMPTS {
            let Some((mut entry, version)) = self.read(id).await.map_err(of_store)? else {
                return Err(Failure::not_found(format!(
                    "there is no token {id} in {}: prs token list shows the tokens there are",
                    self.storage
                )));
            };
            if entry.revoked_at.is_some() {
                self.cache.forget(id);
                return Ok(Token::of(id, entry));
            }
            entry.revoked_at = Some(now_us);
            match self.storage.put(&key(id), entry.bytes().into(), PutMode::Update(version)).await {
                Ok(_) => {
                    self.cache.forget(id);
                    return Ok(Token::of(id, entry));
                }
                Err(error)
                    if matches!(error.kind, StorageErrorKind::Changed | StorageErrorKind::NotFound) =>
                {
                    backoff.wait().await;
                }
                Err(error) => return Err(Failure::server(error)),
            }
        }
        Err(Failure::from(anyhow::anyhow!(
            "other programs change token {id} all the time: try again when they are done"
        )))
    }

    /// Who shows the token `text` at `now_us`. What is read of it is believed for some seconds, so that a request costs the
    /// store nothing; that a token was revoked is known everywhere within 10 s.
    ///
    /// # Errors
    /// It is not taken, or cannot be looked up.
    pub async fn verify(&self, text: &str, now_us: u64) -> Result<Principal, Refusal> {
        let presented = Presented::read(text)?;
        let entry = self.believed(presented.id).await?;
        let kept = bytes_of(&entry.sha256).unwrap_or_default();
        if !bool::from(kept.ct_eq(&presented.digest)) {
            return Err(self.unknown());
        }
        let who = taken(presented.id, &entry, now_us)?;
        self.uses.note(presented.id, entry.last_used_on.as_deref(), now_us);
        Ok(who)
    }

    /// Whether the token that `text` says it is was read here before, so that to look it up again costs the store a read in some
    /// seconds at most.
    pub fn knows(&self, text: &str) -> bool {
        Presented::read(text).is_ok_and(|presented| self.cache.has(presented.id))
    }

    /// Writes which tokens were shown today, where that is not known yet.
    ///
    /// # Errors
    /// The store fails; what is not written is written the next time.
    pub async fn write_uses(&self) -> Result<(), Failure> {
        for (id, day) in self.uses.take() {
            let written = self.write_use(&id, &day).await;
            if let Err(refusal) = written {
                self.uses.put_back(id, day);
                return Err(of_store(refusal));
            }
        }
        Ok(())
    }

    async fn write_use(&self, id: &str, day: &str) -> Result<(), Refusal> {
        let Some((mut entry, version)) = self.read(id).await? else { return Ok(()) };
        if entry.last_used_on.as_deref().is_some_and(|known| known >= day) {
            return Ok(());
        }
        entry.last_used_on = Some(day.to_owned());
        match self.storage.put(&key(id), entry.bytes().into(), PutMode::Update(version)).await {
            Ok(_) => {
                self.cache.forget(id);
                Ok(())
            }
            // Another server did it, or the token was revoked; the next request tells whether it is to be done still.
            Err(error) if matches!(error.kind, StorageErrorKind::Changed | StorageErrorKind::NotFound) => {
                self.uses.forget(id);
                Ok(())
            }
            Err(error) => Err(Refusal::Store(error)),
        }
    }

    /// Who logged in with the token of this id, as [`verify`](Self::verify) would have it of the token itself.
    ///
    /// # Errors
    /// It is not taken any more, or cannot be looked up.
    pub async fn of_id(&self, id: &str, now_us: u64) -> Result<Principal, Refusal> {
        let entry = self.believed(id).await?;
        let who = taken(id, &entry, now_us)?;
        self.uses.note(id, entry.last_used_on.as_deref(), now_us);
        Ok(who)
    }

    /// What was read of the token with this id a moment ago, or is read now.
    async fn believed(&self, id: &str) -> Result<Arc<StoredToken>, Refusal> {
        if let Some(entry) = self.cache.get(id) {
            return Ok(entry);
        }
        let asked = self.cache.ask();
        let (entry, _) = self.read(id).await?.ok_or_else(|| self.unknown())?;
        Ok(self.cache.keep(id, entry, asked))
    }

    fn unknown(&self) -> Refusal {
        Refusal::Unknown { place: self.storage.to_string() }
    }

    /// What is kept of the token with this id.
    async fn read(&self, id: &str) -> Result<Option<(StoredToken, Version)>, Refusal> {
        if !is_id(id) {
            return Ok(None);
        }
        let (body, version) = match self.storage.get_versioned(&key(id)).await {
            Ok(read) => read,
            Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Refusal::Store(error)),
        };
        let damaged = |reason| Refusal::Damaged { place: self.storage.uri(&key(id)), reason };
        Ok(Some((StoredToken::read(&body).map_err(damaged)?, version)))
    }
}

impl NewToken {
    /// What is wrong with it.
    fn check(&self) -> Result<(), String> {
        let Self { name, role, endpoints, lifetime } = self;
        if name.trim() != name || name.is_empty() || name.chars().count() > LONGEST_NAME {
            return Err(format!(
                "{name:?} cannot be the name of a token: give 1 to {LONGEST_NAME} characters, none of them a space at an end"
            ));
        }
        if name.chars().any(char::is_control) {
            return Err(format!("{name:?} cannot be the name of a token: it has control characters"));
        }
        if *role == Role::Invoke && endpoints.is_empty() {
            return Err(format!(
                "a token of the role {role} names its endpoints: give --endpoint NAME, or --endpoint '{ANY}' for all"
            ));
        }
        if *role != Role::Invoke && !endpoints.is_empty() {
            return Err(format!(
                "the role {role} is not bound to endpoints: leave --endpoint out, or give --role {}",
                Role::Invoke
            ));
        }
        if let Some(wrong) = endpoints.iter().find(|one| *one != ANY && !is_endpoint(one)) {
            return Err(format!(
                "{wrong:?} is not the name of an endpoint: give letters, digits, `_`, `.` and `-`, or '{ANY}' for all"
            ));
        }
        match lifetime {
            Some(lifetime) if lifetime.is_zero() || *lifetime > LONGEST_LIFE => Err(format!(
                "a token lives 1 to {} days, or for good (--days 0)",
                LONGEST_LIFE.as_secs() / 86_400
            )),
            _ => Ok(()),
        }
    }
}

/// Who has the token with this id, where it is taken at `now_us`.
fn taken(id: &str, entry: &StoredToken, now_us: u64) -> Result<Principal, Refusal> {
    let token = Token::of(id, entry.clone());
    match (token.state(now_us), token.revoked_us, token.expires_us) {
        (TokenState::Active, ..) => Ok(token.into()),
        (_, Some(at_us), _) => Err(Refusal::Revoked { id: token.id, at_us }),
        (.., at_us) => Err(Refusal::Expired { id: token.id, at_us: at_us.unwrap_or_default() }),
    }
}

fn is_endpoint(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=240).contains(&name.len()) && name.as_bytes()[0].is_ascii_alphanumeric() && name.bytes().all(plain)
}

fn of_store(error: Refusal) -> Failure {
    match error {
        Refusal::Store(error) => Failure::server(error),
        error => Failure::usage(error),
    }
}

fn key(id: &str) -> String {
    format!("{FOLDER}{id}")
}

#[cfg(test)]
mod tests;
