//! Inputs that failed once, by what they guard.

use prs_tests::fuzz::passes;

#[test]
fn a_frame_that_claims_more_than_comes_takes_no_memory_for_it() {
    // 1.8 GB.
    passes("wire_frames", b"\xc1\x97\xa5n");
}

#[test]
fn a_descriptor_that_is_nested_deep_takes_no_stack_for_it() {
    let nested = b"\x81\x86".repeat(500);
    passes("mini_batch_descriptors", &[b"\x93\x01\x01".as_slice(), &nested].concat());
}

#[test]
fn keys_of_keys_of_a_job_file_take_no_stack() {
    let nested = "? ".repeat(800);
    passes("job_file_yaml", format!("{}: {nested}", "? ".repeat(23)).as_bytes());
}
