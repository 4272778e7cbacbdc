//! A glob over absolute paths: the folder to start from and what to take below it.
//!
//! `*` and `?` stay within one part of a path, `**` crosses parts. Folders that cannot hold a
//! match are not entered, so that `/data/*/2024/*.csv` reads only what it names.

use globset::{GlobBuilder, GlobMatcher};

use super::ListingError;

/// Characters that make a part of a path a pattern.
const WILDCARDS: [char; 5] = ['*', '?', '[', '{', '\\'];

/// A glob over absolute, `/`-separated paths.
#[derive(Debug)]
pub struct PathPattern {
    base: String,
    matcher: GlobMatcher,
    /// One matcher for each folder level below `base`, as far as levels can be told apart.
    levels: Vec<GlobMatcher>,
    /// Whether a folder below the last of `levels` may hold a match.
    deeper: bool,
}

impl PathPattern {
    /// Whether `path` has a wildcard.
    pub fn is_glob(path: &str) -> bool {
        path.contains(WILDCARDS)
    }

    /// The longest folder of the absolute path `path` that has no wildcard; without any wildcard, all of it. Everything
    /// that `path` names, as a glob or as it stands, is that or below it.
    pub fn fixed_part(path: &str) -> &str {
        let fixed = match path.find(WILDCARDS) {
            Some(wildcard) => &path[..path[..wildcard].rfind('/').unwrap_or(0)],
            None => path.trim_end_matches('/'),
        };
        if fixed.is_empty() { "/" } else { fixed }
    }

    /// The folders that the absolute path `path` has below its [`fixed_part`](Self::fixed_part), read as they stand, the
    /// outermost first. One of them that exists is meant by its name: a folder may be called `run[12]`.
    pub fn folders(path: &str) -> impl Iterator<Item = &str> {
        let fixed = Self::fixed_part(path).len();
        path.match_indices('/').map(|(slash, _)| &path[..slash]).filter(move |folder| folder.len() > fixed)
    }

    /// Reads `pattern`, an absolute path, as a glob below `base`, one of its folders, whose name has no wildcard whatever it
    /// is made of.
    pub fn below(base: &str, pattern: &str) -> Result<Self, ListingError> {
        let below = pattern[base.len()..].trim_start_matches('/');
        let matcher = compile(below).map_err(|error| ListingError::Glob {
            pattern: pattern.to_owned(),
            reason: error.kind().to_string(),
        })?;
        let parts: Vec<&str> = below.split('/').collect();
        let (_, folders) = parts.split_last().expect("split gives at least one part");
        // A part that does not stand for exactly one level (`**`, or braces around a `/`, whose
        // halves do not compile) ends what is known about levels.
        let levels: Vec<GlobMatcher> = parts
            .iter()
            .map_while(|part| if part.contains("**") { None } else { compile(part).ok() })
            .collect();
        let deeper = levels.len() < parts.len();
        let levels = levels.into_iter().take(folders.len()).collect();
        let base = if base.is_empty() { "/" } else { base };
        Ok(Self { base: base.to_owned(), matcher, levels, deeper })
    }

    /// The longest folder without a wildcard.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether the file at `relative`, a path below the base, is picked.
    pub fn picks(&self, relative: &str) -> bool {
        self.matcher.is_match(relative)
    }

    /// Whether a part of the glob stands for the folders at `depth` below the base, from 0; else `**` does.
    pub fn names_folder(&self, depth: usize) -> bool {
        depth < self.levels.len()
    }

    /// Whether the folder `name`, at `depth` folders below the base from 0, may hold a match, given
    /// that its parents may.
    pub fn enters(&self, name: &str, depth: usize) -> bool {
        self.levels.get(depth).map_or(self.deeper, |level| level.is_match(name))
    }
}

fn compile(glob: &str) -> Result<GlobMatcher, globset::Error> {
    Ok(GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build()?.compile_matcher())
}
