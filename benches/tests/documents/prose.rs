//! The sentences of a document with their marks, and which of them state a figure that is measured.

use std::sync::LazyLock;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex::Regex;

/// How a mark begins.
static MARK: LazyLock<Regex> = LazyLock::new(|| pattern(r"<!--\s*figure:"));

/// The end of a sentence, with the first letter of the next one, which is no small letter.
static END: LazyLock<Regex> = LazyLock::new(|| pattern(r#"[^\s.][.?!][)"]?\s+[^\s\p{Ll}.]"#));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("it is a pattern")
}

/// A sentence, or a cell of a table, which may have several.
#[derive(Debug, Default, PartialEq)]
pub struct Sentence {
    /// What stands within `` ` `` is code.
    pub text: String,
    /// Where it begins.
    pub line: usize,
    pub is_cell: bool,
    /// What stands in the marks behind it, and the line of each.
    pub marks: Vec<(usize, String)>,
}

/// All of a document, without its blocks of code. Marks that no reader of the page should see, but
/// would, are errors.
pub fn sentences(document: &str) -> Result<Vec<Sentence>, Vec<String>> {
    let mut reading = Reading {
        document,
        ..Reading::default()
    };
    // Offsets at which a mark may stand: as a comment in a line, or as a text about marks.
    let mut seen = Vec::new();
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_TASKLISTS;
    for (event, range) in Parser::new_ext(document, options).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => {
                reading.end_block();
                reading.is_code = true;
                seen.push(range);
            }
            Event::End(TagEnd::CodeBlock) => {
                reading.block = Block::default();
                reading.is_code = false;
            }
            Event::Start(Tag::Emphasis | Tag::Strong | Tag::Link { .. }) => {}
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link) => {}
            Event::Start(tag) => {
                reading.end_block();
                reading.is_cell = matches!(tag, Tag::TableCell);
            }
            Event::End(_) => reading.end_block(),
            Event::Text(text) => reading.push(&text, range.start),
            Event::Code(code) => {
                reading.push(&format!("`{code}`"), range.start);
                seen.push(range);
            }
            Event::SoftBreak | Event::HardBreak => reading.push(" ", range.start),
            Event::InlineHtml(html) if MARK.is_match(&html) => {
                reading.mark(&html, range.start);
                if !is_at_the_head_of_a_line(document, range.start) {
                    seen.push(range);
                }
            }
            _ => {}
        }
    }
    let marks = MARK.find_iter(document).map(|mark| mark.start());
    let torn = marks.filter(|offset| !seen.iter().any(|range| range.contains(offset)));
    let torn = torn.map(|offset| {
        let line = line_of(document, offset);
        format!("{line}: a mark tears the page, unless it stands behind a sentence in its line")
    });
    let torn: Vec<String> = torn.collect();
    if torn.is_empty() {
        Ok(reading.sentences)
    } else {
        Err(torn)
    }
}

/// The documentation of a file of the source, line for line.
pub fn documentation(source: &str) -> String {
    let line = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("//!").or(line.strip_prefix("///"));
        let text = text.unwrap_or_default();
        format!("{}\n", text.strip_prefix(' ').unwrap_or(text))
    };
    source.lines().map(line).collect()
}

/// A block of a document: a paragraph, an item of a list, a heading, a cell.
#[derive(Default)]
struct Block {
    text: String,
    /// Where in the text a piece of it begins, and where that piece is in the document.
    pieces: Vec<(usize, usize)>,
    /// Where in the text a mark stands, its line, and what stands in it.
    marks: Vec<(usize, usize, String)>,
}

#[derive(Default)]
struct Reading<'a> {
    document: &'a str,
    block: Block,
    is_cell: bool,
    is_code: bool,
    sentences: Vec<Sentence>,
}

impl Reading<'_> {
    fn push(&mut self, text: &str, offset: usize) {
        self.block.pieces.push((self.block.text.len(), offset));
        self.block.text += text;
    }

    fn mark(&mut self, html: &str, offset: usize) {
        let within = MARK.replace(html, "");
        let within = within.trim_end_matches("-->").trim().to_owned();
        let line = line_of(self.document, offset);
        self.block.marks.push((self.block.text.len(), line, within));
    }

    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        if self.is_code {
            return;
        }
        let mut sentences: Vec<(usize, Sentence)> = Vec::new();
        for (begin, text) in split(&block.text, self.is_cell) {
            let before = block.pieces.iter().rev();
            let (at, offset) = before
                .copied()
                .find(|(at, _)| *at <= begin)
                .unwrap_or_default();
            let sentence = Sentence {
                text: text.to_owned(),
                line: line_of(self.document, offset + begin - at),
                is_cell: self.is_cell,
                marks: Vec::new(),
            };
            sentences.push((begin, sentence));
        }
        for (at, line, mark) in block.marks {
            let mut before = sentences.iter_mut().rev();
            if let Some((_, sentence)) = before.find(|(begin, _)| *begin < at) {
                sentence.marks.push((line, mark));
            }
        }
        let sentences = sentences.into_iter().map(|(_, sentence)| sentence);
        self.sentences.extend(sentences);
        self.is_cell = false;
    }
}

/// The sentences of a block, and where each begins.
fn split(text: &str, is_cell: bool) -> Vec<(usize, &str)> {
    let mut begins = vec![0];
    // The ends overlap where a sentence has one letter.
    let mut from = 0;
    while let Some(found) = END.find_at(text, from).filter(|_| !is_cell) {
        let last = text[..found.end()]
            .chars()
            .next_back()
            .map_or(0, char::len_utf8);
        from = found.end() - last;
        begins.push(from);
    }
    let ends = begins.iter().skip(1).copied().chain([text.len()]);
    let pairs = begins.iter().copied().zip(ends);
    let sentences = pairs.map(|(begin, end)| {
        let sentence = text[begin..end].trim();
        (
            begin + text[begin..end].find(sentence).unwrap_or(0),
            sentence,
        )
    });
    sentences
        .filter(|(_, sentence)| !sentence.is_empty())
        .collect()
}

fn line_of(document: &str, offset: usize) -> usize {
    1 + document[..offset].matches('\n').count()
}

fn is_at_the_head_of_a_line(document: &str, offset: usize) -> bool {
    let line = document[..offset].rsplit('\n').next();
    line.is_none_or(|line| line.trim().is_empty())
}

/// Figures in every document, and in tables too: their units are of no clock and of no limit here.
static ALWAYS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\d ?(ns|us|µs|KB|MB|×)(\W|$)|\d times (faster|slower|tokio's)"));

/// Figures in the sentences of some documents: such words may also be of a clock or of a limit.
static OFTEN: LazyLock<Regex> = LazyLock::new(|| {
    let kinds = [
        r"\d ?%|\d bytes",
        r"\b(half|twice)\b",
        r"\b(a|one|two|three|four|nine) (third|quarter|fifth|tenth)s?\b",
        r"\b(\d+|two|three|four|five|six|seven|eight|nine|ten|dozens of|hundreds of) times (as|the|more|less|better|faster|slower|cheaper|dearer|tokio's)\b",
        r"\bfrom \d[\d,]*( \w+){0,2} on\b",
        r"\b(take|takes|took|taken|measured)\b.*(\d m?s|\b(a|of a) (milli)?second)\b",
        r"\b(faster|slower|cheaper|dearer)\b",
    ];
    pattern(&format!("(?i){}", kinds.join("|")))
});

/// The figure that a sentence states, if it does. What stands in it as code is none.
pub fn figure(sentence: &Sentence, is_strict: bool) -> Option<String> {
    let pieces = sentence.text.split('`').enumerate();
    let prose = pieces.filter(|(index, _)| index % 2 == 0);
    let prose: Vec<&str> = prose.map(|(_, piece)| piece).collect();
    let prose = prose.join("``");
    let always = ALWAYS.find(&prose);
    let found = always.or_else(|| {
        let is_looked_for = is_strict && !sentence.is_cell;
        OFTEN.find(&prose).filter(|_| is_looked_for)
    })?;
    Some(found.as_str().trim().to_owned())
}

mod tests {
    use super::*;

    fn sentence(text: &str, line: usize, marks: &[(usize, &str)]) -> Sentence {
        Sentence {
            text: text.to_owned(),
            line,
            is_cell: false,
            marks: marks
                .iter()
                .map(|(line, mark)| (*line, mark.to_string()))
                .collect(),
        }
    }

    #[test]
    fn a_mark_belongs_to_the_sentence_before_it() {
        let document = "\
# A title

One `a.b` of 1, 2, .. 4 takes
5 ns. <!-- figure: a b = 5 ns --> Another of **1.5 s**. And a
third (see [d]). <!-- figure: c
d = 1 s; none --> <!-- figure: none -->

- An item <!-- figure: e -->
- another

[d]: e
";
        let expected = [
            sentence("A title", 1, &[]),
            sentence(
                "One `a.b` of 1, 2, .. 4 takes 5 ns.",
                3,
                &[(4, "a b = 5 ns")],
            ),
            sentence("Another of 1.5 s.", 4, &[]),
            sentence(
                "And a third (see d).",
                4,
                &[(5, "c\nd = 1 s; none"), (6, "none")],
            ),
            sentence("An item", 8, &[(8, "e")]),
            sentence("another", 9, &[]),
        ];
        assert_eq!(sentences(document).unwrap(), expected);
    }

    #[test]
    fn a_cell_of_a_table_is_one_sentence() {
        let found =
            sentences("| a | b. C. |\n|---|---|\n| c 5 ns <!-- figure: d --> | e |\n").unwrap();
        let texts: Vec<_> = found
            .iter()
            .map(|cell| (&*cell.text, cell.is_cell, cell.marks.len()))
            .collect();
        assert_eq!(
            texts,
            [
                ("a", true, 0),
                ("b. C.", true, 0),
                ("c 5 ns", true, 1),
                ("e", true, 0)
            ]
        );
    }

    #[test]
    fn a_mark_that_tears_the_page_is_an_error() {
        let torn = [
            ("A sentence.\n<!-- figure: a -->\n", 2),
            ("A\n\n- An item.\n  <!-- figure: a -->\n", 4),
            ("A sentence. <!-- figure: a\n> 1 -->\n", 1),
            ("A sentence. <!-- figure: a\n", 1),
            ("A sentence.\n<!--\nfigure: a -->\n", 2),
        ];
        for (document, line) in torn {
            let errors = sentences(document).unwrap_err();
            assert_eq!(errors.len(), 1, "{document}");
            assert!(errors[0].starts_with(&format!("{line}: ")), "{errors:?}");
        }
        for about in [
            "Write `<!-- figure: a -->`.\n",
            "```text\n<!-- figure: a -->\n```\n",
        ] {
            assert!(
                sentences(about)
                    .unwrap()
                    .iter()
                    .all(|sentence| sentence.marks.is_empty())
            );
        }
    }

    #[test]
    fn documentation_keeps_its_lines() {
        let source =
            "//! A file.\n//!\n//! More.\n\nfn code() {}\n/// An item.\n// no documentation\n";
        assert_eq!(documentation(source), "A file.\n\nMore.\n\n\nAn item.\n\n");
    }

    #[test]
    fn a_figure_is_told_from_a_clock_and_from_a_limit() {
        for (text, is_figure, is_strict_figure) in [
            ("It takes 83 ns.", true, true),
            ("It takes 0.4 MB", true, true),
            ("It is 2× tokio's.", true, true),
            ("It is 3 times faster.", true, true),
            ("It takes 12 % of a core.", false, true),
            ("A deadline takes 152 bytes.", false, true),
            ("It takes a fifth more.", false, true),
            ("The driver takes half the CPU.", false, true),
            ("It keeps hundreds of times the memory.", false, true),
            ("From 1,000 timers on, tokio is ahead.", false, true),
            ("One drop took a quarter of a second.", false, true),
            ("With mimalloc it took 2 ms.", false, true),
            ("No insert takes a millisecond.", false, true),
            ("It is cheaper.", false, true),
            ("A stall is more than 50 ms and one tick.", false, false),
            ("A tick of 1 ms, and segments of 32 KiB.", false, false),
            ("It wakes up 100 times a second.", false, false),
            ("Write `sleep(5 ns)`, or `50 %`.", false, false),
        ] {
            let sentence = sentence(text, 1, &[]);
            let [loose, strict] = [false, true].map(|is_strict| figure(&sentence, is_strict));
            assert_eq!(
                [loose.is_some(), strict.is_some()],
                [is_figure, is_strict_figure],
                "{text}"
            );
        }
    }
}
