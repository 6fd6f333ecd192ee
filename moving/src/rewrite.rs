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
use syn::{ItemUse, UseTree, Visibility};

/// A source after the move. The lines are those of the source before it.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    /// Each place that was moved, with its line before.
    pub(crate) moved: Vec<(usize, String)>,
    /// What was left alone, and why.
    pub(crate) left: Vec<(usize, String)>,
    /// Something was moved that is no code of tests alone.
    pub(crate) in_code: bool,
    /// An `IntervalStream` was moved, which needs the feature `stream`.
    pub(crate) streams: bool,
    /// The modules of tests that have files of their own.
    pub(crate) test_modules: Vec<String>,
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
        in_tests: false,
        in_code: false,
        streams: false,
        test_modules: Vec::new(),
    };
    rewriter.walk(body.parse()?);
    rewriter.name_what_stays();
    rewriter.left.sort();
    let text = format!("{mark}{}", rewriter.apply());
    Ok(Rewritten {
        text,
        moved: rewriter.moved,
        left: rewriter.left,
        in_code: rewriter.in_code,
        streams: rewriter.streams,
        test_modules: rewriter.test_modules,
    })
}

struct Rewriter<'a> {
    source: &'a str,
    names: &'a BTreeSet<String>,
    edits: Vec<(Range<usize>, String)>,
    moved: Vec<(usize, String)>,
    left: Vec<(usize, String)>,
    /// What is read now is code of tests alone.
    in_tests: bool,
    in_code: bool,
    streams: bool,
    test_modules: Vec<String>,
}

impl Rewriter<'_> {
    fn walk(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_within_tests = self.in_tests;
        let mut tests_end = None;
        let mut at = 0;
        while at < tokens.len() {
            if is_for_tests(&tokens[at..]) {
                tests_end = Some(end_of_item(&tokens, at));
            }
            self.in_tests = is_within_tests || tests_end.is_some_and(|end| at <= end);
            if let Some((item, end)) = use_at(&tokens, at) {
                self.change_use(&item, start_of_item(&tokens, at), &tokens[end]);
                at = end + 1;
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) => self.walk(group.stream()),
                TokenTree::Ident(ident)
                    if self.is_tokio(ident) && leads_to(&tokens[at..], &["time"]) =>
                {
                    let place = tokens[at].span().byte_range();
                    if is_within_path(&tokens[..at]) {
                        self.leave(place.start, "a path through another module");
                    } else {
                        self.move_name(place);
                    }
                }
                TokenTree::Ident(ident)
                    if self.is_tokio(ident) && leads_to(&tokens[at..], &["$"]) =>
                {
                    let place = tokens[at].span().byte_range().start;
                    self.leave(place, "a macro puts in the name of the module");
                }
                TokenTree::Ident(ident)
                    if ident == "tokio_stream"
                        && leads_to(&tokens[at..], &["wrappers", "IntervalStream"]) =>
                {
                    let end = tokens[at + 3].span().byte_range().end;
                    self.move_stream(tokens[at].span().byte_range().start..end);
                }
                TokenTree::Ident(ident) if self.in_tests && ident == "mod" => {
                    let declared = tokens[at..].get(1..3);
                    let name = declared.filter(|declared| is_punct(&declared[1], ';'));
                    self.test_modules
                        .extend(name.map(|declared| declared[0].to_string()));
                }
                _ => {}
            }
            at += 1;
        }
        self.in_tests = is_within_tests;
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
        let mut moving = Vec::new();
        let staying = self.split(tree, "", &mut moving);
        let place = range(tree);
        let moved = match &moving[..] {
            [] => return,
            [one] => format!("tickwheel::{one}"),
            more => format!("tickwheel::{{{}}}", more.join(", ")),
        };
        let text = match (staying, tree, item) {
            // Within its braces all stays as it is.
            (None, UseTree::Path(path), _) if self.is_tokio(&path.ident) => {
                return self.move_name(path.ident.span().byte_range());
            }
            (None, _, _) => moved,
            (Some(staying), _, None) => format!("{staying}, {moved}"),
            (Some(staying), _, Some((start, _))) => {
                let lead = &self.source[start..place.start];
                format!("{staying};{}{lead}{moved}", self.separator(start))
            }
        };
        self.note_move(place.start);
        self.edits.push((place, text));
    }

    /// Takes what moves out of a tree, each with its path in tickwheel, and returns the rest.
    fn split(&mut self, tree: &UseTree, above: &str, moving: &mut Vec<String>) -> Option<String> {
        let name = match tree {
            UseTree::Path(path) => path.ident.to_string(),
            UseTree::Name(name) => name.ident.to_string(),
            UseTree::Rename(name) => name.ident.to_string(),
            UseTree::Glob(_) => "*".to_owned(),
            UseTree::Group(group) => {
                let parts = group.items.iter();
                let parts: Vec<String> = parts
                    .filter_map(|tree| self.split(tree, above, moving))
                    .collect();
                return match &parts[..] {
                    [] => None,
                    [one] if one != "self" => Some(one.clone()),
                    more => Some(format!("{{{}}}", more.join(", "))),
                };
            }
        };
        let (text, at) = (self.text(tree).to_owned(), range(tree).start);
        let is_alias = matches!(tree, UseTree::Rename(_));
        let in_tokio = self.names.contains(above);
        match (above, &*name) {
            (_, "time") if in_tokio => {
                moving.push(text);
                return None;
            }
            ("tokio_stream::wrappers", "IntervalStream") => {
                self.streams = true;
                moving.push(format!("stream::{text}"));
                return None;
            }
            ("tokio_stream::wrappers", "*") => {
                self.leave(
                    at,
                    "its IntervalStream takes tokio's; see tickwheel::stream",
                );
            }
            (_, "*") if in_tokio => self.leave(at, "all of tokio: its `time` is among that"),
            (_, "self") if in_tokio && is_alias => self.leave(at, "tokio under another name"),
            ("", name) if is_alias && self.names.contains(name) => {
                self.leave(at, "tokio under another name");
            }
            _ => {}
        }
        let UseTree::Path(path) = tree else {
            return Some(text);
        };
        let separator = if above.is_empty() { "" } else { "::" };
        let rest = self.split(&path.tree, &format!("{above}{separator}{name}"), moving)?;
        Some(format!("{name}::{rest}"))
    }

    /// `tokio_stream::wrappers` is this place, and an `IntervalStream` follows.
    fn move_stream(&mut self, place: Range<usize>) {
        self.note_move(place.start);
        self.streams = true;
        self.edits.push((place, "tickwheel::stream".to_owned()));
    }

    fn move_name(&mut self, place: Range<usize>) {
        self.note_move(place.start);
        self.edits.push((place, "tickwheel".to_owned()));
    }

    fn note_move(&mut self, at: usize) {
        let what = self.line_text(at).to_owned();
        self.in_code |= !self.in_tests;
        self.moved.push((self.line(at), what));
    }

    fn leave(&mut self, at: usize, why: &str) {
        let what = self.line_text(at);
        self.left.push((self.line(at), format!("{why}: {what}")));
    }

    /// Names what reads as if it should move, and does not.
    fn name_what_stays(&mut self) {
        const KEPT: [(&str, &str); 3] = [
            ("tokio_util::time", "on tokio's timers; see DelayMap"),
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
        self.edits.sort_by_key(|(place, _)| place.start);
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
            let line_end = if self.source.contains("\r\n") {
                "\r\n"
            } else {
                "\n"
            };
            format!("{line_end}{indent}")
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

/// Whether the first of the tokens is followed by `::` and these names, one after the other.
fn leads_to(tokens: &[TokenTree], names: &[&str]) -> bool {
    names.iter().enumerate().all(|(number, name)| {
        matches!(
            tokens.get(3 * number + 1..3 * number + 4),
            Some([first, second, next])
                if is_punct(first, ':') && is_punct(second, ':') && next.to_string() == *name
        )
    })
}

/// Whether the attribute `#[cfg(test)]` begins here.
fn is_for_tests(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(attribute), ..] = tokens else {
        return false;
    };
    let text = attribute.stream().to_string().replace(' ', "");
    is_punct(hash, '#') && (text == "cfg(test)" || text.starts_with("cfg(all(test,"))
}

/// Where an item ends: at its semicolon, or with its body.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';'),
    };
    let rest = tokens[at..].iter().position(is_end);
    rest.map_or(tokens.len(), |rest| at + rest)
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
