//! Which answers count: a write is done when the server answers as a store does, and holds the bytes that were sent.
//!
//! Every body travels with its CRC32C. A server that knows the header refuses what was damaged on the way, keeps the
//! checksum with the object and sends it back; most others ignore it, and to one that refuses it no more are sent. What
//! prs itself must be sure of has a checksum of its own, inside the objects.
//!
//! The SDK compares what is read. For what is written it was tried and serves less: it sends checksums of all bodies or of
//! none (of one request, an algorithm that is named counts for nothing unless all have one), so a server that refuses them
//! would need a second client; and it keeps the sum to itself, which what the server stored is compared with here.

use std::borrow::Cow;

use aws_sdk_s3::config::interceptors::AfterDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{ChecksumType, CommonPrefix, EncodingType, Object};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;

use super::failure::S3Failure;
use crate::checksum::{StoredChecksum, crc32c};

/// The CRC32C of `body` as the header `x-amz-checksum-crc32c` has it: big-endian, in base64.
pub(super) fn checksum_header(body: &[u8]) -> String {
    BASE64_STANDARD.encode(crc32c(body).to_be_bytes())
}

/// The `ETag` of an answer to a write. Every S3 server gives one; a proxy or a web page that answers 200 does not.
pub(super) fn confirm_etag(etag: Option<String>) -> Result<String, S3Failure> {
    etag.filter(|etag| !etag.is_empty()).ok_or_else(|| S3Failure::no_s3_answer("it has no ETag"))
}

/// The `ETag` of an answer to a write of a body with checksum `sent`; a server that keeps checksums tells its own, and
/// it must be the same.
pub(super) fn confirm_write(
    etag: Option<String>,
    stored: Option<&str>,
    sent: Option<&str>,
) -> Result<String, S3Failure> {
    let etag = confirm_etag(etag)?;
    match (stored, sent) {
        (Some(stored), Some(sent)) if stored != sent => Err(S3Failure::unanswered(format!(
            "the server stored other bytes than were sent: their CRC32C is {stored}, not {sent}"
        ))),
        _ => Ok(etag),
    }
}

/// The checksum of a whole object that the server keeps. Of one that came in parts it may keep a checksum of theirs
/// instead, which is told by its kind, and by the number of parts behind it.
pub(super) fn stored_checksum(answer: &HeadObjectOutput) -> Option<StoredChecksum> {
    if answer.checksum_type().is_some_and(|kind| *kind != ChecksumType::FullObject) {
        return None;
    }
    let decoded = |text: Option<&str>| BASE64_STANDARD.decode(text?).ok();
    let four = |text| Some(u32::from_be_bytes(decoded(text)?.try_into().ok()?));
    let eight = |text| Some(u64::from_be_bytes(decoded(text)?.try_into().ok()?));
    let crc64 = eight(answer.checksum_crc64_nvme()).map(StoredChecksum::Crc64Nvme);
    let crc32c = || four(answer.checksum_crc32_c()).map(StoredChecksum::Crc32c);
    crc64.or_else(crc32c).or_else(|| four(answer.checksum_crc32()).map(StoredChecksum::Crc32))
}

/// Lets an answer to a delete count only when it has no body, as a store's has none: it tells nothing else by which it
/// differs from a web page.
#[derive(Debug)]
pub(super) struct AnswersWithoutBody;

impl Intercept for AnswersWithoutBody {
    fn name(&self) -> &'static str {
        "AnswersWithoutBody"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let answer = context.response();
        if answer.status().is_success() && answer.body().bytes().is_some_and(|body| !body.is_empty()) {
            return Err("the answer is not that of an S3 server: it has a body".into());
        }
        Ok(())
    }
}

/// Bytes of the body of `answer`, and bytes of the object, as it promises them to a request for the bytes from `start` to
/// `end`, or for the whole object without a `range`. An answer of another part, or of less than the object has of it, is
/// none.
pub(super) fn promised(answer: &GetObjectOutput, range: Option<(u64, u64)>) -> Result<(u64, u64), S3Failure> {
    confirm_etag(answer.e_tag.clone())?;
    let length = answer.content_length().and_then(|length| u64::try_from(length).ok());
    let length = length.ok_or_else(|| S3Failure::no_s3_answer("it does not say how long it is"))?;
    let Some((start, end)) = range else { return Ok((length, length)) };
    let said = answer.content_range().and_then(parse_content_range);
    let (first, last, size) =
        said.ok_or_else(|| S3Failure::no_s3_answer("it does not say which range of the object it is"))?;
    if first != start || last.checked_add(1) != Some(end.min(size)) || length != last + 1 - first {
        return Err(S3Failure::unanswered(format!(
            "the answer is not what was asked for: {length} bytes, said to be {first} to {last} of {size}, \
             for those from {start} on up to {end}"
        )));
    }
    Ok((length, size))
}

/// A page of a listing of what is below `prefix` in the bucket. One that names something else was damaged on its way, and
/// one that is cut and does not say how to go on would lose the rest.
pub(super) fn confirm_page(
    page: ListObjectsV2Output,
    prefix: &str,
) -> Result<ListObjectsV2Output, S3Failure> {
    if page.encoding_type().is_some_and(|encoding| *encoding != EncodingType::Url) {
        return Err(S3Failure::no_s3_answer("it has names in an encoding that was not asked for"));
    }
    let objects = page.contents().iter().filter_map(Object::key);
    let mut names = objects.chain(page.common_prefixes().iter().filter_map(CommonPrefix::prefix));
    if let Some(other) = names.find(|name| !listed_name(&page, name).starts_with(prefix)) {
        return Err(S3Failure::unanswered(format!(
            "the listing of {prefix} has {other}, which is not in it"
        )));
    }
    if page.is_truncated() == Some(true) && page.next_continuation_token().is_none() {
        return Err(S3Failure::no_s3_answer("it lists a part, and does not say how to go on"));
    }
    Ok(page)
}

/// A name as a page of a listing has it: as in a form, with `+` for a space, where the server encodes names as it was
/// asked to.
pub(super) fn listed_name<'a>(page: &ListObjectsV2Output, name: &'a str) -> Cow<'a, str> {
    match page.encoding_type() {
        Some(EncodingType::Url) => {
            Cow::Owned(percent_decode_str(&name.replace('+', " ")).decode_utf8_lossy().into_owned())
        }
        _ => Cow::Borrowed(name),
    }
}

/// `bytes 3-7/20` gives 3, 7 and 20.
fn parse_content_range(text: &str) -> Option<(u64, u64, u64)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range = (first.parse().ok()?, last.parse().ok()?, size.parse().ok()?);
    (range.0 <= range.1).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StorageErrorKind;

    #[test]
    fn content_ranges() {
        assert_eq!(parse_content_range("bytes 3-7/20"), Some((3, 7, 20)));
        for other in ["", "bytes */20", "bytes 3-7/*", "3-7/20", "bytes 7-3/20", "bytes 3/20"] {
            assert_eq!(parse_content_range(other), None, "{other}");
        }
    }

    #[test]
    fn a_range_is_answered_whole_or_not_at_all() {
        let answer = |length, range: &str| {
            GetObjectOutput::builder().e_tag("\"a\"").content_length(length).content_range(range).build()
        };
        let table = [
            (answer(5, "bytes 3-7/20"), 3, 8, true),
            (answer(17, "bytes 3-19/20"), 3, 100, true),
            (answer(17, "bytes 3-19/20"), 3, u64::MAX, true),
            // Half of it, and consistent in itself.
            (answer(2, "bytes 3-4/20"), 3, 8, false),
            (answer(2, "bytes 3-7/20"), 3, 8, false),
            (answer(5, "bytes 4-8/20"), 3, 8, false),
            (answer(20, ""), 3, 8, false),
        ];
        for (answer, start, end, is_whole) in table {
            assert_eq!(promised(&answer, Some((start, end))).is_ok(), is_whole, "{answer:?}");
        }
    }

    #[test]
    fn a_listing_of_something_else_is_asked_for_again() {
        let page = |names: &[&str]| {
            let objects = names.iter().map(|name| Object::builder().key(*name).build());
            ListObjectsV2Output::builder().set_contents(Some(objects.collect()))
        };
        let encoded = |names: &[&str]| page(names).encoding_type(EncodingType::Url);
        let table = [
            (page(&["a b/1", "a b/2"]), true),
            (page(&["a b/1", "a c/2"]), false),
            (page(&["a+b/1"]), false),
            (encoded(&["a+b/1", "a%20b/2"]), true),
            (encoded(&["a+b/1", "a%21b/2"]), false),
            (encoded(&[]), true),
            (page(&["a b/1"]).encoding_type(EncodingType::from("tsl")), false),
            (page(&["a b/1"]).is_truncated(true).next_continuation_token("on"), true),
            (page(&["a b/1"]).is_truncated(true), false),
            (page(&[]).common_prefixes(CommonPrefix::builder().prefix("a b/c/").build()), true),
            (page(&[]).common_prefixes(CommonPrefix::builder().prefix("a/c/").build()), false),
        ];
        for (page, is_listing) in table {
            let page = page.build();
            let told = format!("{page:?}");
            let confirmed = confirm_page(page, "a b/");
            assert_eq!(confirmed.is_ok(), is_listing, "{told}");
            assert!(confirmed.err().is_none_or(|failure| failure.kind == StorageErrorKind::Unavailable));
        }
    }

    #[test]
    fn what_no_store_answers_is_not_stored() {
        let sum = checksum_header(b"123456789");
        assert_eq!(sum, "4waSgw==");
        let table = [
            (Some("\"a\""), None, true),
            (Some("\"a\""), Some(sum.as_str()), true),
            (Some("\"a\""), Some("AAAAAA=="), false),
            (Some(""), None, false),
            (None, Some(sum.as_str()), false),
        ];
        for (etag, stored, is_stored) in table {
            let confirmed = confirm_write(etag.map(str::to_owned), stored, Some(&sum));
            assert_eq!(confirmed.is_ok(), is_stored, "{etag:?} {stored:?}");
            // The write is made again.
            assert!(confirmed.err().is_none_or(|failure| failure.kind == StorageErrorKind::Unavailable));
        }
    }
}
