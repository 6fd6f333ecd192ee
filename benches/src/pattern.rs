//! Names of rows, where a `*` stands for whatever is in its place: `replace-*`, `idiom-*-0`.

/// Whether the pattern stands for this name. It has one `*` at most.
pub fn covers(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            let rest = name.strip_prefix(head);
            rest.is_some_and(|rest| rest.ends_with(tail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_whatever_is_in_its_place() {
        for (pattern, name, is_covered) in [
            ("ready-1", "ready-1", true),
            ("ready-1", "ready-10", false),
            ("ready-*", "ready-10", true),
            ("ready-*", "already-1", false),
            ("idiom-*-0", "idiom-made-0", true),
            ("idiom-*-0", "idiom-made-1", false),
            ("ab*ba", "aba", false),
            ("*", "anything", true),
        ] {
            assert_eq!(covers(pattern, name), is_covered, "{pattern} {name}");
        }
    }
}
