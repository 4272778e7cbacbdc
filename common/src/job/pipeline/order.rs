//! Whether steps can be run one after the other: none of them may need its own output.

/// The steps of a circle, each of which needs the next, the first one again at the end; nothing where there is none.
/// `needs` has, for each step, the positions of those that it needs.
pub(crate) fn circle(needs: &[Vec<usize>]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Done,
    }
    let mut seen = vec![Seen::No; needs.len()];
    for start in 0..needs.len() {
        if seen[start] != Seen::No {
            continue;
        }
        seen[start] = Seen::OnPath;
        // The path from `start`: each step, and how many of its needs were looked at.
        let mut path = vec![(start, 0)];
        while let Some((step, looked)) = path.last_mut() {
            let Some(&next) = needs[*step].get(*looked) else {
                seen[*step] = Seen::Done;
                path.pop();
                continue;
            };
            *looked += 1;
            match seen[next] {
                Seen::Done => {}
                Seen::No => {
                    seen[next] = Seen::OnPath;
                    path.push((next, 0));
                }
                Seen::OnPath => {
                    let steps = path.iter().map(|(step, _)| *step).skip_while(|step| *step != next);
                    return Some(steps.chain([next]).collect());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_wherever_it_is() {
        type Row<'a> = (&'a [&'a [usize]], Option<&'a [usize]>);
        let table: [Row<'_>; 7] = [
            (&[], None),
            (&[&[], &[0], &[0, 1], &[2, 0]], None),
            (&[&[0]], Some(&[0, 0])),
            (&[&[1], &[0]], Some(&[0, 1, 0])),
            (&[&[], &[0, 2], &[3], &[1]], Some(&[1, 2, 3, 1])),
            (&[&[1, 2], &[3], &[3], &[]], None),
            (&[&[1], &[2], &[1]], Some(&[1, 2, 1])),
        ];
        for (needs, expected) in table {
            let needs: Vec<Vec<usize>> = needs.iter().map(|needs| needs.to_vec()).collect();
            assert_eq!(circle(&needs).as_deref(), expected, "{needs:?}");
        }
        // A long chain needs no stack.
        let chain: Vec<Vec<usize>> = (0..100_000).map(|step| vec![step + 1]).chain([vec![]]).collect();
        assert_eq!(circle(&chain), None);
    }
}
