//! The directory of the table of tries: what is in each part, so that most of them need not be read.

use super::{VERSION, Which};
use crate::message_pack;
use crate::record::record;
use crate::segment::TryStatus;

use super::Row;

/// Bits that tell which nodes have tries in a part.
pub const NODE_BITS: usize = 512;
/// The longest directory that is read, bytes.
const MOST_BYTES: usize = 16 << 20;

/// The byte and the bit of a node among [`NODE_BITS`].
pub fn node_bit(node_id: u32) -> (usize, u8) {
    let at = node_id as usize % NODE_BITS;
    (at / 8, 1 << (at % 8))
}

record! {
    /// What is in a part.
    pub struct Extent {
        /// Its rows.
        pub rows: u64,
        /// Their bytes.
        pub bytes: u64,
        /// CRC32C of these bytes.
        pub crc: u32,
        /// The least index of a mini-batch.
        pub least_index: u64,
        /// The greatest.
        pub most_index: u64,
        /// When the first try began, microseconds since the Unix epoch.
        pub first_us: u64,
        /// When the last one began.
        pub last_us: u64,
        /// The longest try, microseconds.
        pub most_us: u64,
        /// Tries by status, in the order of [`TryStatus::ALL`]; without the zeros at the end.
        pub by_status: Vec<u64>,
        /// Outcomes among them.
        pub outcomes: u64,
        /// A bit for each node, by [`node_bit`]; without the zeros at the end.
        pub nodes: serde_bytes::ByteBuf,
        /// The error groups; empty where there are too many, which `has_more_groups` says.
        pub groups: Vec<String>,
        /// Whether there are more groups than are listed.
        pub has_more_groups: bool,
    }
}

/// Error groups that an extent lists.
const MOST_GROUPS: usize = 16;

impl Extent {
    /// Takes in a try of a node.
    pub fn add(&mut self, node_id: u32, row: &Row) {
        let is_first = self.rows == 0;
        let least = |have: u64, new: u64| if is_first { new } else { have.min(new) };
        self.least_index = least(self.least_index, row.index);
        self.first_us = least(self.first_us, row.started_us);
        self.most_index = self.most_index.max(row.index);
        self.last_us = self.last_us.max(row.started_us);
        self.most_us = self.most_us.max(row.elapsed_us);
        self.rows += 1;
        self.outcomes += u64::from(row.is_outcome);
        let status = row.status as usize;
        if self.by_status.len() <= status {
            self.by_status.resize(status + 1, 0);
        }
        self.by_status[status] += 1;
        let (byte, bit) = node_bit(node_id);
        if self.nodes.len() <= byte {
            self.nodes.resize(byte + 1, 0);
        }
        self.nodes[byte] |= bit;
        if !row.group.is_empty() && !self.has_more_groups && !self.groups.contains(&row.group) {
            if self.groups.len() < MOST_GROUPS {
                self.groups.push(row.group.clone());
            } else {
                (self.groups, self.has_more_groups) = (Vec::new(), true);
            }
        }
    }

    /// Whether a node may have tries in it.
    pub fn may_have_node(&self, node_id: u32) -> bool {
        let (byte, bit) = node_bit(node_id);
        self.nodes.get(byte).is_some_and(|byte| byte & bit != 0)
    }

    /// Whether tries of an error group may be in it.
    pub fn may_have_group(&self, group: &str) -> bool {
        self.has_more_groups || self.groups.iter().any(|have| have == group)
    }

    /// Tries in it that ended so.
    pub fn tries(&self, status: TryStatus) -> u64 {
        self.by_status.get(status as usize).copied().unwrap_or_default()
    }
}

record! {
    /// The directory.
    pub struct Directory {
        /// When it was written, microseconds since the Unix epoch.
        pub written_us: u64,
        /// The start of the job whose orchestrator wrote it.
        pub incarnation: u32,
        /// Segments that the rows cover.
        pub followed: u64,
        /// The parts with all tries.
        pub all: Vec<Extent>,
        /// Those of the tries of mini-batches with which something was wrong.
        pub troubled: Vec<Extent>,
        /// Whether rows are missing, for they could not be written.
        pub lacks_rows: bool,
    }
}

/// Why a directory cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// Another version of prs wrote it, in another form.
    #[error(
        "the directory of tries is of version {0}, this prs reads version {VERSION}: look with the prs that runs the job"
    )]
    OtherVersion(u8),
    /// It is not what was written.
    #[error("the directory of tries is damaged: {0}")]
    Damaged(String),
}

impl Directory {
    /// The extents of a table.
    pub fn extents(&self, which: Which) -> &[Extent] {
        match which {
            Which::All => &self.all,
            Which::Troubled => &self.troubled,
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        rmp_serde::encode::write(&mut bytes, self).expect("it holds only numbers, strings and lists of them");
        bytes
    }

    /// The directory that `bytes` hold.
    pub fn decode(bytes: &[u8]) -> Result<Self, DirectoryError> {
        let damaged = |reason: &str| DirectoryError::Damaged(reason.to_owned());
        let (version, body) = bytes.split_first().ok_or_else(|| damaged("nothing is there"))?;
        if *version != VERSION {
            return Err(DirectoryError::OtherVersion(*version));
        }
        if bytes.len() > MOST_BYTES {
            return Err(damaged("it is longer than any version of prs writes it"));
        }
        message_pack::decode(body).map_err(|error| DirectoryError::Damaged(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::ProcessRef;
    use crate::try_table::{Block, blocks};

    #[test]
    fn an_extent_tells_what_may_be_in_it() {
        let mut extent = Extent::default();
        let row = |index, group: &str| Row {
            index,
            started_us: 100 + index,
            elapsed_us: index,
            group: group.into(),
            ..Row::default()
        };
        extent.add(513, &row(7, ""));
        extent.add(3, &Row { status: 1, is_outcome: true, ..row(5, "abc") });
        assert_eq!(
            (extent.least_index, extent.most_index, extent.first_us, extent.last_us),
            (5, 7, 105, 107)
        );
        assert_eq!((extent.rows, extent.outcomes, extent.most_us), (2, 1, 7));
        assert_eq!((extent.tries(TryStatus::RunDone), extent.tries(TryStatus::RunException)), (1, 1));
        // Of more than 512 nodes two have a bit in common.
        assert!(extent.may_have_node(1) && extent.may_have_node(3) && !extent.may_have_node(2));
        assert!(extent.may_have_group("abc") && !extent.may_have_group("abd"));
        for number in 0..20 {
            extent.add(3, &row(5, &number.to_string()));
        }
        assert!(extent.may_have_group("abd") && extent.groups.is_empty());
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let mut extent = Extent { bytes: 3, crc: 7, ..Extent::default() };
        extent.add(0, &Row::default());
        let directory = Directory { followed: 3, all: vec![extent], ..Directory::default() };
        assert_eq!(Directory::decode(&directory.encode()).unwrap(), directory);
        assert!(matches!(Directory::decode(&[9, 1]), Err(DirectoryError::OtherVersion(9))));
        for bytes in [&b""[..], &[VERSION], &[VERSION, 0xdd, 0xff, 0xff, 0xff, 0xff]] {
            assert!(matches!(Directory::decode(bytes), Err(DirectoryError::Damaged(_))), "{bytes:?}");
        }

        let block = Block {
            rows: vec![Row::default(); 2],
            processes: vec![ProcessRef::default()],
            ..Block::default()
        };
        let mut part = Vec::new();
        block.append_to(&mut part);
        block.append_to(&mut part);
        assert_eq!(blocks(&part).unwrap(), [block.clone(), block]);
        for cut in 1..part.len() {
            assert!(blocks(&part[..cut]).is_err() || cut == part.len() / 2, "{cut}");
        }
        let mut foreign = Vec::new();
        Block { rows: vec![Row::default()], ..Block::default() }.append_to(&mut foreign);
        assert!(blocks(&foreign).is_err());
    }
}
