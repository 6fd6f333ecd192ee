//! Takes the recipes out of the documents, so that a test runs what a user copies.

use std::path::Path;
use std::{env, error, fs};

fn main() -> Result<(), Box<dyn error::Error>> {
    for page in ["OPERATIONS", "RECIPES", "TESTING"] {
        let page = format!("../docs/{page}.md");
        println!("cargo::rerun-if-changed={page}");
        let page = fs::read_to_string(page)?;
        for recipe in page.split("<!-- recipe: ").skip(1) {
            let (name, rest) = recipe
                .split_once(" -->\n```rust\n")
                .ok_or("no block follows")?;
            let (code, _) = rest.split_once("```\n").ok_or("the block has no end")?;
            let path = Path::new(&env::var("OUT_DIR")?).join(format!("{name}.rs"));
            fs::write(path, code)?;
        }
    }
    Ok(())
}
