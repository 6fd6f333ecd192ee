//! The alerts of `docs/OPERATIONS.md`, which an operator copies, query what its recipe exports.
//!
//! No compiler sees a rule of Prometheus. So the test runs the recipe, and compares the names.

use tickwheel::Timer;

use crate::recipes::exported_to_prometheus;

const PAGE: &str = include_str!("../../../docs/OPERATIONS.md");

#[tokio::test]
async fn every_alert_uses_what_the_recipe_exports() {
    let exported = exported_to_prometheus(vec![Timer::current()]);
    let samples = exported.lines().filter(|line| !line.starts_with('#'));
    let exported: Vec<_> = samples.filter_map(|it| it.split_once('{')).collect();
    let (_, rules) = PAGE.split_once("```yaml\n").expect("the page has rules");
    let (rules, _) = rules.split_once("```").expect("the rules have an end");
    let queries = rules.lines();
    let queries = queries.filter_map(|line| line.trim().strip_prefix("expr: "));
    let queries: Vec<_> = queries.collect();
    assert_eq!(queries.len(), rules.matches("- alert: ").count());
    for query in queries {
        let words = query.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mut names = words
            .filter(|word| word.starts_with("tickwheel_"))
            .peekable();
        assert!(names.peek().is_some(), "{query}");
        for name in names {
            let is_exported = exported.iter().any(|(known, _)| *known == name);
            assert!(is_exported, "{query}: no {name}");
        }
    }
}
