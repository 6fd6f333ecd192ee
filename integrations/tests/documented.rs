//! Each public function of the two crates has its page: a sentence, `# Panics` and `# Errors` where
//! they apply, and an example that is run.
//!
//! Clippy looks for the sections of functions whose panics it can see. It does not know that a
//! function with `#[track_caller]` is one that panics where it is misused, nor does it ask for
//! examples. So this test reads the source. Within the two crates `pub` means public, because rustc
//! warns of any other (`unreachable_pub`).

use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, GenericArgument, ImplItem, Item, PathArguments, ReturnType, TraitItem, Type};

/// What returns a value and no more. Each needs no example.
const ACCESSORS: &[&str] = &[
    "DeadlineMap::is_empty",
    "DeadlineMap::len",
    "DelayMap::contains_key",
    "DelayMap::is_empty",
    "DelayMap::len",
    "DelayQueue::capacity",
    "DelayQueue::is_empty",
    "DelayQueue::len",
    "Expired::deadline",
    "Expired::get_mut",
    "Expired::get_ref",
    "Expired::into_inner",
    "Expired::key",
    "Interval::missed_tick_behavior",
    "Interval::period",
    "IntervalStream::into_inner",
    "KeyedDeadline::key",
    "ResetHandle::is_pending",
    "ResetHandle::timeout",
    "Sleep::deadline",
    "Timer::now",
    "Wheel::is_empty",
    "Wheel::len",
    "Wheel::now",
];

/// The most public functions of each crate: a surface that one reads in an afternoon.
const MOST: [(&str, usize); 2] = [("src", 155), ("tickwheel-util/src", 60)];

/// What a page says, and what it has to say.
struct Page {
    /// The function, with its type.
    name: String,
    place: PathBuf,
    text: String,
    can_panic: bool,
    can_fail: bool,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn pages(folder: &str) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let file = syn::parse_file(&text).unwrap();
                read_items(&path, &file.items, &mut pages);
            }
        }
    }
    pages
}

fn read_items(place: &Path, items: &[Item], pages: &mut Vec<Page>) {
    let mut add = |name: String, attributes: &[Attribute], signature: &syn::Signature| {
        pages.push(Page {
            name,
            place: place.to_owned(),
            text: text_of(attributes),
            can_panic: attributes
                .iter()
                .any(|it| it.path().is_ident("track_caller")),
            can_fail: returns_a_result(&signature.output),
        });
    };
    for item in items {
        match item {
            Item::Fn(function) if is_public(&function.vis) => {
                add(
                    function.sig.ident.to_string(),
                    &function.attrs,
                    &function.sig,
                );
            }
            Item::Impl(block) if block.trait_.is_none() => {
                for item in &block.items {
                    if let ImplItem::Fn(method) = item
                        && is_public(&method.vis)
                    {
                        let name = format!("{}::{}", name_of(&block.self_ty), method.sig.ident);
                        add(name, &method.attrs, &method.sig);
                    }
                }
            }
            Item::Trait(definition) if is_public(&definition.vis) => {
                for item in &definition.items {
                    if let TraitItem::Fn(method) = item
                        && !is_hidden(&method.attrs)
                    {
                        let name = format!("{}::{}", definition.ident, method.sig.ident);
                        add(name, &method.attrs, &method.sig);
                    }
                }
            }
            _ => {}
        }
    }
    for item in items {
        if let Item::Mod(module) = item
            && let Some((_, items)) = &module.content
            && is_public(&module.vis)
        {
            read_items(place, items, pages);
        }
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        let list = it.meta.require_list();
        it.path().is_ident("doc") && list.is_ok_and(|list| list.tokens.to_string() == "hidden")
    })
}

/// The comment above an item.
fn text_of(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|it| match &it.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(literal) => match &literal.lit {
                syn::Lit::Str(line) => Some(line.value() + "\n"),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect()
}

fn name_of(of: &Type) -> String {
    last_segment(of).map_or_else(String::new, |segment| segment.ident.to_string())
}

fn last_segment(of: &Type) -> Option<&syn::PathSegment> {
    match of {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// Whether a function returns a `Result`, or polls for one.
fn returns_a_result(output: &ReturnType) -> bool {
    let ReturnType::Type(_, output) = output else {
        return false;
    };
    let Some(segment) = last_segment(output) else {
        return false;
    };
    if segment.ident != "Poll" {
        return segment.ident == "Result";
    }
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return false;
    };
    arguments.args.iter().any(|argument| match argument {
        GenericArgument::Type(polled) => name_of(polled) == "Result",
        _ => false,
    })
}

#[test]
fn each_public_function_has_its_sections_and_an_example() {
    let mut missing = Vec::new();
    let mut accessors = Vec::new();
    for (folder, _) in MOST {
        for page in pages(folder) {
            let name = page.name;
            let mut report = |what: &str| {
                missing.push(format!("{}: {name} has no {what}", page.place.display()));
            };
            if page.text.trim().is_empty() {
                report("comment");
            }
            if page.can_panic && !page.text.contains("\n # Panics\n") {
                report("`# Panics`");
            }
            if page.can_fail && !page.text.contains("\n # Errors\n") {
                report("`# Errors`");
            }
            let is_accessor = ACCESSORS.contains(&name.as_str());
            if !is_accessor && !page.text.contains("\n ```\n") {
                report("example");
            }
            if is_accessor {
                accessors.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    for name in ACCESSORS {
        assert!(accessors.iter().any(|it| it == name), "there is no {name}");
    }
}

#[test]
fn the_surface_stays_small() {
    for (folder, most) in MOST {
        let number = pages(folder).len();
        println!("{folder}: {number} public functions");
        assert!(number > most / 2, "{folder} was read: {number}");
        assert!(
            number <= most,
            "{folder} has {number} public functions, more than {most}"
        );
    }
}
