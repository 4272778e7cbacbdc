//! Why a process was started: what became of the one before it in its slot.

/// Why a process was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum StartReason {
    /// It is the first in its slot.
    #[default]
    Start,
    /// The one before could not import the script, or its `init()` raised.
    Exception,
    /// The one before took too long, and was killed for that.
    Timeout,
    /// The one before was killed by a signal: the kernel's, its own, or the worker's for another reason.
    Killed,
    /// The one before exited by itself.
    Exited,
    /// The one before was told to make room, because mini-batches failed in it.
    Replaced,
    /// The one before had run, or grown to, what the job allows a process.
    UsedUp,
}

impl StartReason {
    pub(super) const ALL: [Self; 7] = [
        Self::Start,
        Self::Exception,
        Self::Timeout,
        Self::Killed,
        Self::Exited,
        Self::Replaced,
        Self::UsedUp,
    ];

    /// The value of a label.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Exception => "exception",
            Self::Timeout => "timeout",
            Self::Killed => "killed",
            Self::Exited => "exited",
            Self::Replaced => "replaced",
            Self::UsedUp => "used_up",
        }
    }

    /// Why the next process is started, after one with this `returncode`, which is negative after a signal.
    pub(crate) fn after(init_failed: bool, timed_out: bool, killed: bool, returncode: i32) -> Self {
        match returncode {
            _ if timed_out => Self::Timeout,
            _ if init_failed => Self::Exception,
            _ if killed => Self::Killed,
            ..0 => Self::Killed,
            0.. => Self::Exited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_the_one_before_is_the_reason() {
        let table = [
            ((false, false, false, 0), StartReason::Exited),
            ((false, false, false, 3), StartReason::Exited),
            ((false, false, false, -11), StartReason::Killed),
            ((false, false, true, 0), StartReason::Killed),
            ((false, true, true, -9), StartReason::Timeout),
            ((true, false, false, 1), StartReason::Exception),
            // It was told to end after that.
            ((true, false, true, -9), StartReason::Exception),
        ];
        for ((init_failed, timed_out, killed, returncode), expected) in table {
            let found = StartReason::after(init_failed, timed_out, killed, returncode);
            assert_eq!(found, expected, "{init_failed} {timed_out} {killed} {returncode}");
        }
    }
}
