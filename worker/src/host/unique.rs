//! Names that nothing else has.

/// Eight hexadecimal digits, random.
pub(crate) fn unique() -> String {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    format!("{:08x}", u32::from_le_bytes(bytes))
}
