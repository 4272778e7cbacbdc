//! What goes to the scripts and comes back: `MessagePack`, and the words of states.

use redis::{FromRedisValue, ParsingError, RedisWrite, ToRedisArgs, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ledger::JobState;
use crate::message_pack;

/// A value as `MessagePack`, which Lua can read too.
#[derive(Debug)]
pub(super) struct Packed<T>(pub(super) T);

impl<T: Serialize> ToRedisArgs for Packed<T> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg(&rmp_serde::to_vec_named(&self.0).expect("numbers, strings and flags can be packed"));
    }
}

impl<T: DeserializeOwned> FromRedisValue for Packed<T> {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let packed = Vec::<u8>::from_redis_value(value)?;
        message_pack::decode(&packed).map(Self).map_err(|error| error.to_string().into())
    }
}

impl FromRedisValue for JobState {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let word = String::from_redis_value(value)?;
        state_called(word.as_bytes()).ok_or_else(|| format!("no state is called {word:?}").into())
    }
}

/// The state of this name.
pub(super) fn state_called(word: &[u8]) -> Option<JobState> {
    JobState::ALL.into_iter().find(|state| state.as_str().as_bytes() == word)
}
