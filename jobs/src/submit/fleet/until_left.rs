//! Waiting for the end of what a fleet does, which a user may leave: of Ctrl-C on a terminal the first says what the second one
//! does.

use std::future::Future;
use std::pin::Pin;

use crate::caller::Caller;
use crate::failure::Failure;
use crate::interrupts::Interrupts;

/// What `ended` gives; nothing where the user left it. `what` is a job or a pipeline, whose id is `id`.
pub(crate) async fn until_left<T>(
    mut ended: Pin<&mut impl Future<Output = Result<T, Failure>>>,
    interrupts: &mut dyn Interrupts,
    caller: &dyn Caller,
    (what, id): (&str, &str),
) -> Result<Option<T>, Failure> {
    let mut asked = false;
    loop {
        tokio::select! {
            result = &mut ended => return result.map(Some),
            wish = interrupts.next() => {
                if asked || !wish.may_be_a_slip {
                    return Ok(None);
                }
                asked = true;
                caller.note(&format_args!(
                    "{wish}: the {what} goes on without this program; once more leaves it, prs cancel {id} ends it"
                ));
            }
        }
    }
}
