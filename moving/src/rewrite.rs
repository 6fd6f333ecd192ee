//! Rewrites one source: each path into `tokio::time` becomes one into `tickwheel::time`.
//!
//! It goes by tokens, with their places in the text, so it reads the bodies of macros as well, and
//! never the inside of a string. Comments are no tokens. A `use` of several things is split.
//!
//! Invariant: but for the edits, each byte of the text stays.

use std::collections::BTreeSet;
use std::ops::Range;

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{ItemUse, UseGroup, UsePath, UseTree, Visibility};

/// A source after the move. The lines are those of the source before it.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    /// Each place that was moved, with its line before.
    pub(crate) moved: Vec<(usize, String)>,
    /// What was left alone, and why.
    pub(crate) left: Vec<(usize, String)>,
}

/// Rewrites a source in which tokio has these names.
///
/// # Errors
///
/// The text does not read as Rust.
pub(crate) fn rewrite(source: &str, names: &BTreeSet<String>) -> Result<Rewritten, LexError> {
    const BYTE_ORDER_MARK: char = '\u{feff}';
    // The lexer skips the mark and counts it wrongly.
    let (mark, body) = match source.strip_prefix(BYTE_ORDER_MARK) {
        Some(body) => ("\u{feff}", body),
        None => ("", source),
    };
    let mut rewriter = Rewriter {
        source: body,
        names,
        edits: Vec::new(),
        moved: Vec::new(),
        left: Vec::new(),
    };
    rewriter.walk(body.parse()?);
    rewriter.name_what_stays();
    rewriter.left.sort();
    let text = format!("{mark}{}", rewriter.apply());
    Ok(Rewritten {
        text,
        moved: rewriter.moved,
        left: rewriter.left,
    })
}

struct Rewriter<'a> {
    source: &'a str,
    names: &'a BTreeSet<String>,
    edits: Vec<(Range<usize>, String)>,
    moved: Vec<(usize, String)>,
    left: Vec<(usize, String)>,
}

impl Rewriter<'_> {
    fn walk(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if let Some((item, end)) = use_at(&tokens, at) {
                self.change_use(&item, start_of_item(&tokens, at), &tokens[end]);
                at = end + 1;
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) => self.walk(group.stream()),
                TokenTree::Ident(ident) if self.is_tokio(ident) && leads_to_time(&tokens[at..]) => {
                    let place = tokens[at].span().byte_range();
                    if is_within_path(&tokens[..at]) {
                        self.leave(place.start, "a path through another module");
                    } else {
                        self.move_name(place);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn change_use(&mut self, item: &ItemUse, start: usize, end: &TokenTree) {
        let before = self.edits.len();
        match &item.tree {
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.change_root(tree, None);
                }
            }
            tree => self.change_root(tree, Some((start, end.span().byte_range().end))),
        }
        if self.edits.len() > before && !matches!(item.vis, Visibility::Inherited) {
            self.leave(
                start,
                "moved, and the re-export may be public: your users see another type",
            );
        }
    }

    /// `item` is where the item starts and ends, if it has this root alone.
    fn change_root(&mut self, tree: &UseTree, item: Option<(usize, usize)>) {
        match tree {
            UseTree::Path(path) if self.is_tokio(&path.ident) => match &*path.tree {
                UseTree::Glob(_) => {
                    self.leave(range(path).start, "all of tokio: its `time` is among that");
                }
                UseTree::Group(group) => self.split(path, group, item),
                tree if is_time(tree) => self.move_name(path.ident.span().byte_range()),
                _ => {}
            },
            UseTree::Rename(rename) if self.is_tokio(&rename.ident) => {
                self.leave(range(rename).start, "tokio under another name");
            }
            _ => {}
        }
    }

    /// Splits `tokio::{task, time}`.
    fn split(&mut self, path: &UsePath, group: &UseGroup, item: Option<(usize, usize)>) {
        let (moving, staying): (Vec<_>, Vec<_>) = group.items.iter().partition(|t| is_time(t));
        if moving.is_empty() {
            return;
        }
        if staying.is_empty() {
            return self.move_name(path.ident.span().byte_range());
        }
        let moving_text = match &moving[..] {
            [one] => self.text(one).to_owned(),
            more => {
                let texts: Vec<&str> = more.iter().map(|tree| self.text(tree)).collect();
                format!("{{{}}}", texts.join(", "))
            }
        };
        let (at, added) = match item {
            Some((start, end)) => {
                let lead = &self.source[start..range(path).start];
                (
                    end,
                    format!("{}{lead}tickwheel::{moving_text};", self.separator(start)),
                )
            }
            None => (range(path).end, format!(", tickwheel::{moving_text}")),
        };
        self.note_move(range(path).start);
        match &staying[..] {
            [one] if !matches!(one, UseTree::Name(name) if name.ident == "self") => {
                let text = self.text(one).to_owned();
                self.edits.push((range(group), text));
            }
            _ => {
                for gap in gaps(group) {
                    self.edits.push((gap, String::new()));
                }
            }
        }
        self.edits.push((at..at, added));
    }

    fn move_name(&mut self, place: Range<usize>) {
        self.note_move(place.start);
        self.edits.push((place, "tickwheel".to_owned()));
    }

    fn note_move(&mut self, at: usize) {
        let what = self.line_text(at).to_owned();
        self.moved.push((self.line(at), what));
    }

    fn leave(&mut self, at: usize, why: &str) {
        let what = self.line_text(at);
        self.left.push((self.line(at), format!("{why}: {what}")));
    }

    /// Names what reads as if it should move, and does not.
    fn name_what_stays(&mut self) {
        const KEPT: [(&str, &str); 4] = [
            ("tokio_util::time", "on tokio's timers; see DelayMap"),
            (
                "IntervalStream",
                "takes tokio's Interval; see tickwheel::stream",
            ),
            (
                "tokio_stream::StreamExt",
                "its timeouts are tokio's; see tickwheel::stream",
            ),
            (
                "tokio_util::future",
                "its timeout is tokio's; see tickwheel::future",
            ),
        ];
        let mut at = 0;
        for line in self.source.split_inclusive('\n') {
            let is_comment = line.trim_start().starts_with("//");
            if is_comment {
                if self
                    .names
                    .iter()
                    .any(|name| line.contains(&format!("{name}::time")))
                {
                    self.leave(at, "a comment");
                }
            } else if let Some((_, why)) = KEPT.iter().find(|(word, _)| line.contains(word)) {
                self.leave(at, why);
            }
            at += line.len();
        }
    }

    fn apply(&mut self) -> String {
        // Stable, so that what is added at the end of an item comes after what is changed in it.
        self.edits
            .sort_by_key(|(place, _)| (place.start, place.end));
        let mut text = String::with_capacity(self.source.len() + 64);
        let mut done = 0;
        for (place, new) in &self.edits {
            text.push_str(&self.source[done..place.start]);
            text.push_str(new);
            done = place.end;
        }
        text.push_str(&self.source[done..]);
        text
    }

    fn is_tokio(&self, ident: &proc_macro2::Ident) -> bool {
        self.names.iter().any(|name| ident == name)
    }

    fn text(&self, tokens: &impl ToTokens) -> &str {
        &self.source[range(tokens)]
    }

    fn line(&self, at: usize) -> usize {
        self.source[..at].matches('\n').count() + 1
    }

    fn line_text(&self, at: usize) -> &str {
        let start = self.source[..at]
            .rfind('\n')
            .map_or(0, |newline| newline + 1);
        self.source[start..]
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
    }

    /// What stands between an item and one that is added after it: a new line, as far in.
    fn separator(&self, start: usize) -> String {
        let line = self.source[..start]
            .rfind('\n')
            .map_or(0, |newline| newline + 1);
        let indent = &self.source[line..start];
        if indent.trim().is_empty() {
            format!("\n{indent}")
        } else {
            " ".to_owned()
        }
    }
}

/// The `use` that starts at a token, and where its semicolon is.
fn use_at(tokens: &[TokenTree], at: usize) -> Option<(ItemUse, usize)> {
    if !matches!(&tokens[at], TokenTree::Ident(ident) if ident == "use") {
        return None;
    }
    let end = at + tokens[at..].iter().position(|token| is_punct(token, ';'))?;
    // With its visibility, but not with its attributes.
    let is_public = at > 0 && matches!(&tokens[at - 1], TokenTree::Ident(ident) if ident == "pub");
    let start = at - usize::from(is_public);
    let item = syn::parse2(tokens[start..=end].iter().cloned().collect()).ok()?;
    Some((item, end))
}

/// Where the item of a `use` starts, with its visibility and attributes.
fn start_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let mut start = at;
    let delimiter = |index: usize| match &tokens[index] {
        TokenTree::Group(group) => Some(group.delimiter()),
        _ => None,
    };
    let is_pub = |index: usize| matches!(&tokens[index], TokenTree::Ident(i) if i == "pub");
    if start >= 1 && is_pub(start - 1) {
        start -= 1;
    } else if start >= 2
        && delimiter(start - 1) == Some(Delimiter::Parenthesis)
        && is_pub(start - 2)
    {
        start -= 2;
    }
    while start >= 2
        && delimiter(start - 1) == Some(Delimiter::Bracket)
        && is_punct(&tokens[start - 2], '#')
    {
        start -= 2;
    }
    tokens[start].span().byte_range().start
}

/// Whether `tokio` is followed by `::time`.
fn leads_to_time(tokens: &[TokenTree]) -> bool {
    matches!(
        tokens,
        [_, first, second, TokenTree::Ident(ident), ..]
            if is_punct(first, ':') && is_punct(second, ':') && ident == "time"
    )
}

/// Whether a path goes on after these tokens, so that what follows is not its first name.
fn is_within_path(before: &[TokenTree]) -> bool {
    let [rest @ .., first, second] = before else {
        return false;
    };
    if !is_punct(first, ':') || !is_punct(second, ':') {
        return false;
    }
    match rest {
        [.., TokenTree::Ident(ident)] => {
            let name = ident.to_string();
            matches!(&*name, "crate" | "self" | "super" | "Self")
                || syn::parse_str::<syn::Ident>(&name).is_ok()
        }
        [.., arrow, end] if is_punct(end, '>') => !is_punct(arrow, '-') && !is_punct(arrow, '='),
        _ => false,
    }
}

fn is_time(tree: &UseTree) -> bool {
    match tree {
        UseTree::Path(path) => path.ident == "time",
        UseTree::Name(name) => name.ident == "time",
        UseTree::Rename(rename) => rename.ident == "time",
        _ => false,
    }
}

/// What to cut out of a group so that its `time` is gone, with the commas.
fn gaps(group: &UseGroup) -> Vec<Range<usize>> {
    let items: Vec<&UseTree> = group.items.iter().collect();
    let mut gaps: Vec<Range<usize>> = Vec::new();
    let mut kept = None;
    for (index, item) in items.iter().enumerate() {
        let place = range(item);
        if !is_time(item) {
            kept = Some(place.end);
            continue;
        }
        let gap = match (items.get(index + 1), kept) {
            (Some(next), _) => place.start..range(next).start,
            (None, Some(kept)) => kept..place.end,
            (None, None) => place,
        };
        // The last one cuts from what is kept before it, and takes in the gaps since then.
        gaps.retain(|earlier| earlier.start < gap.start);
        gaps.push(gap);
    }
    gaps
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

/// The bytes from the first to the last token.
fn range(tokens: &impl ToTokens) -> Range<usize> {
    let mut ranges = tokens
        .to_token_stream()
        .into_iter()
        .map(|token| token.span().byte_range());
    let first = ranges.next().unwrap_or_default();
    let end = ranges.last().map_or(first.end, |last| last.end);
    first.start..end
}

#[cfg(test)]
mod tests;
