//! What of the body of a request nobody read, as of one that was refused. A little is read and thrown away, so that the connection
//! serves the next request; where more is to come, the connection ends with the answer, which says so. A connection of HTTP/2 goes
//! on, and the little is read all the same: an answer before the end of a body resets its stream, and there are clients that lose
//! the answer then.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderValue, Response, Version};
use futures_util::StreamExt;
use http_body::{Frame, SizeHint};

/// Bytes that are thrown away at most.
const MOST: u64 = 256 << 10;
/// How long they may take.
const WAIT: Duration = Duration::from_millis(500);

/// What is left of a body once nobody reads it any more.
#[derive(Debug)]
pub(crate) struct Unread {
    rest: Arc<Mutex<Option<Body>>>,
    /// Whether the client waits for a word before it sends anything, which nothing is to be read for.
    is_held_back: bool,
    /// Whether the connection goes on whatever becomes of the body.
    goes_on: bool,
}

impl Unread {
    /// Watches over the body of `request`; nothing where it has none.
    pub(crate) fn of(request: Request) -> (Request, Option<Self>) {
        if request.body().is_end_stream() {
            return (request, None);
        }
        let rest = Arc::new(Mutex::new(None));
        let unread = Self {
            rest: Arc::clone(&rest),
            is_held_back: request.headers().contains_key(EXPECT),
            goes_on: request.version() >= Version::HTTP_2,
        };
        (request.map(|body| Body::new(Watched { body: Some(body), rest })), Some(unread))
    }

    /// Has `response` say that the connection ends with it, where too much was not read.
    pub(crate) async fn told<B>(self, response: &mut Response<B>) {
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(rest) = rest else { return };
        if (self.is_held_back || !is_read(rest).await) && !self.goes_on {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// Reads what is left, and says whether that was all of it.
async fn is_read(rest: Body) -> bool {
    if rest.size_hint().lower() > MOST {
        return false;
    }
    let read = async {
        let (mut pieces, mut left) = (rest.into_data_stream(), MOST);
        while let Some(piece) = pieces.next().await {
            let Ok(piece) = piece else { return false };
            match left.checked_sub(piece.len() as u64) {
                Some(less) => left = less,
                None => return false,
            }
        }
        true
    };
    tokio::time::timeout(WAIT, read).await.unwrap_or(false)
}

/// A body that is kept when its reader leaves it.
struct Watched {
    /// Nothing once it has ended, or broke.
    body: Option<Body>,
    rest: Arc<Mutex<Option<Body>>>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if frame.is_none() {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !body.is_end_stream());
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = rest;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::body::to_bytes;
    use futures_util::stream;

    use super::*;

    fn request(body: Body) -> Request {
        Request::new(body)
    }

    /// What the answer says of the connection once `use_of` has had the request.
    async fn said(request: Request, use_of: impl AsyncFnOnce(Request)) -> Option<HeaderValue> {
        let (request, unread) = Unread::of(request);
        use_of(request).await;
        let mut response = Response::new(());
        if let Some(unread) = unread {
            unread.told(&mut response).await;
        }
        response.headers_mut().remove(CONNECTION)
    }

    async fn refuses(request: Request) {
        drop(request);
    }

    /// Pieces of 64 KiB whose number nobody knows beforehand, and nothing after them where it `rests`.
    fn pieces(count: usize, rests: bool) -> Body {
        let pieces = stream::iter((0..count).map(|_| Ok::<_, axum::Error>(Bytes::from(vec![0; 64 << 10]))));
        if rests { Body::from_stream(pieces.chain(stream::pending())) } else { Body::from_stream(pieces) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_where_much_is_left_and_says_so() {
        let close = Some(HeaderValue::from_static("close"));
        for (what, body, expected) in [
            ("none", Body::empty(), None),
            ("small", Body::from("a body"), None),
            ("some pieces", pieces(3, false), None),
            ("large", Body::from(vec![0; 1 << 20]), close.clone()),
            ("many pieces", pieces(20, false), close.clone()),
            ("one that does not come", pieces(1, true), close.clone()),
        ] {
            assert_eq!(said(request(body), refuses).await, expected, "{what}");
        }
        let broken = Body::from_stream(stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]));
        assert_eq!(said(request(broken), refuses).await, close, "a broken one");
        let mut held_back = request(Body::from("a body"));
        held_back.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
        assert_eq!(said(held_back, refuses).await, close, "one that the client holds back");
        for count in [3, 20] {
            let came = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&came);
            let counts = move |piece| {
                counted.fetch_add(1, Ordering::Relaxed);
                Ok::<_, axum::Error>(piece)
            };
            let pieces = stream::iter((0..count).map(|_| Bytes::from(vec![0; 64 << 10]))).map(counts);
            let mut of_http_2 = request(Body::from_stream(pieces));
            *of_http_2.version_mut() = Version::HTTP_2;
            assert_eq!(said(of_http_2, refuses).await, None);
            assert_eq!(came.load(Ordering::Relaxed), count.min(5), "a little is read all the same");
        }
    }

    #[tokio::test]
    async fn a_body_that_was_read_ends_nothing() {
        let reads = async |request: Request| {
            assert_eq!(to_bytes(request.into_body(), 2 << 20).await.unwrap().len(), 1 << 20);
        };
        assert_eq!(said(request(Body::from(vec![0; 1 << 20])), reads).await, None);
        assert_eq!(said(request(pieces(16, false)), reads).await, None);
    }
}
