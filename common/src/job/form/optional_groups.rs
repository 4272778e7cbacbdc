//! `$[[ ... ]]` in a command or in arguments: words that are there only where every input in them has a value (dialects K3).

use super::expressions::parts;

/// `text` without the brackets of its groups, and without groups that name an input which has no value. `has` says of an
/// input whether it has one. Gives the inputs that stand in a group without `${{ }}`, too: azureml's samples have that slip.
pub(super) fn resolve(text: &str, has: impl Fn(&str) -> bool) -> Result<(String, Vec<String>), String> {
    let (mut done, mut slips) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$[[") {
        let (inside, after) = split_at_end(after).ok_or_else(|| {
            format!("`$[[{}` has no end: close it with ]]", after.lines().next().unwrap_or_default())
        })?;
        done.push_str(before);
        rest = after;
        let names = inputs_in(inside);
        if let ["inputs", name] = parts(inside.trim())[..] {
            slips.push(name.to_owned());
            if has(name) {
                done.extend(["${{inputs.", name, "}}"]);
            } else {
                done.push_str("''");
            }
        } else if names.iter().all(|name| has(name)) {
            done.push_str(inside);
        }
    }
    Ok((done + rest, slips))
}

/// What is before and behind the end of a group; `]]` in an expression ends none.
fn split_at_end(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let end = from + text[from..].find("]]")?;
        match text[from..end].find("${{") {
            Some(open) => from = from + open + text[from + open..].find("}}")? + 2,
            None => return Some((&text[..end], &text[end + 2..])),
        }
    }
}

/// The inputs that the expressions of `text` name.
pub(super) fn inputs_in(text: &str) -> Vec<&str> {
    let insides = text.split("${{").skip(1).filter_map(|rest| rest.split_once("}}"));
    insides
        .filter_map(|(inside, _)| match parts(inside)[..] {
            ["inputs", name] | ["inputs", name, "path"] => Some(name),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_there_where_its_inputs_have_values() {
        let has = |name: &str| ["a", "b"].contains(&name);
        for (text, expected, slips) in [
            ("x", Ok("x"), &[][..]),
            ("x $[[--a ${{inputs.a}}]] y", Ok("x --a ${{inputs.a}} y"), &[]),
            ("x $[[--c ${{ inputs.c.path }}]] y", Ok("x  y"), &[]),
            ("$[[${{inputs.a}} ${{inputs.c}}]]$[[ ${{inputs.b}} ]]", Ok(" ${{inputs.b}} "), &[]),
            ("[[ -f x ]] && $[[ always ]]", Ok("[[ -f x ]] &&  always "), &[]),
            ("--n $[[inputs.a]] --m $[[ inputs.c ]]", Ok("--n ${{inputs.a}} --m ''"), &["a", "c"]),
            ("$[[ ${{inputs.a}} ", Err("has no end"), &[]),
        ] {
            match (resolve(text, has), expected) {
                (Ok((done, found)), Ok(expected)) => assert_eq!(
                    (&*done, &*found),
                    (expected, &*slips.iter().map(ToString::to_string).collect::<Vec<_>>()),
                    "{text}"
                ),
                (found, Err(part)) => assert!(found.unwrap_err().contains(part), "{text}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
