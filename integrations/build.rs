//! Takes the recipes out of `docs/OPERATIONS.md`, so that a test runs what a user copies.

use std::path::Path;
use std::{env, error, fs};

fn main() -> Result<(), Box<dyn error::Error>> {
    const PAGE: &str = "../docs/OPERATIONS.md";
    println!("cargo::rerun-if-changed={PAGE}");
    let page = fs::read_to_string(PAGE)?;
    for recipe in page.split("<!-- recipe: ").skip(1) {
        let (name, rest) = recipe
            .split_once(" -->\n```rust\n")
            .ok_or("no block follows")?;
        let (code, _) = rest.split_once("```\n").ok_or("the block has no end")?;
        let path = Path::new(&env::var("OUT_DIR")?).join(format!("{name}.rs"));
        fs::write(path, code)?;
    }
    Ok(())
}
