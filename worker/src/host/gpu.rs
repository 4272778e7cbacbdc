//! Which GPU a process gets (spec G1): the lowest free index.

/// The lowest index below `count` that is not in `used`; `None` when all are taken, or there is none.
pub(crate) fn lowest_free(count: u32, used: impl Iterator<Item = u32>) -> Option<u32> {
    let used: Vec<u32> = used.collect();
    (0..count).find(|index| !used.contains(index))
}

#[cfg(test)]
mod tests {
    use super::lowest_free;

    #[test]
    fn the_lowest_free_index_is_taken_and_used_again() {
        let table: [(u32, &[u32], Option<u32>); 6] = [
            (0, &[], None),
            (2, &[], Some(0)),
            (2, &[0], Some(1)),
            (2, &[1], Some(0)),
            (2, &[0, 1], None),
            (4, &[2, 0], Some(1)),
        ];
        for (count, used, expected) in table {
            assert_eq!(lowest_free(count, used.iter().copied()), expected, "{count} {used:?}");
        }
    }

    #[test]
    fn the_example_of_the_contract() {
        // Two GPUs, four processes; then process 0 ends and process 4 takes its place.
        let mut slots: Vec<Option<u32>> = Vec::new();
        for _ in 0..4 {
            let index = lowest_free(2, slots.iter().flatten().copied());
            slots.push(index);
        }
        assert_eq!(slots, [Some(0), Some(1), None, None]);
        slots[0] = None;
        assert_eq!(lowest_free(2, slots.iter().flatten().copied()), Some(0));
    }
}
