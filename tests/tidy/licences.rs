//! All dependencies of the program may be shipped under this project's licence, and come
//! from the registry. Gets the packages from cargo and parses their licence expressions; the decision
//! is docs/decisions/0002-licence-check.md.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Licences that require no more than their notice, so that a binary may be shipped under ours.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// How the registry's own packages are marked. In halves: see the unshippable words of the house rules.
const REGISTRY: &str = concat!("/crates", ".io-index");

/// Whether `expression` can be satisfied with allowed licences only; an error names the part that does not parse.
fn satisfied(expression: &str) -> Result<bool, String> {
    // The older spelling of OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let holds = either(&mut rest)?;
    rest.first().map_or(Ok(holds), |word| Err(format!("`{word}` does not belong there")))
}

/// `a OR b`, the weakest binding.
fn either(words: &mut &[&str]) -> Result<bool, String> {
    let mut holds = both(words)?;
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        let right = both(words)?;
        holds |= right;
    }
    Ok(holds)
}

/// `a AND b`.
fn both(words: &mut &[&str]) -> Result<bool, String> {
    let mut holds = one(words)?;
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        let right = one(words)?;
        holds &= right;
    }
    Ok(holds)
}

/// A licence, a licence `WITH` an exception, or an expression in parentheses.
fn one(words: &mut &[&str]) -> Result<bool, String> {
    let (first, rest) = words.split_first().ok_or("the expression ends too early")?;
    *words = rest;
    match *first {
        "(" => {
            let holds = either(words)?;
            let Some((&")", rest)) = words.split_first() else { return Err("a `(` stays open".to_owned()) };
            *words = rest;
            Ok(holds)
        }
        ")" | "OR" | "AND" | "WITH" => Err(format!("`{first}` where a licence should be")),
        name => {
            let [with, exception, after @ ..] = rest else { return Ok(ALLOWED.contains(&name)) };
            if *with != "WITH" {
                return Ok(ALLOWED.contains(&name));
            }
            *words = after;
            Ok(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()))
        }
    }
}

/// The violation of one package of cargo's metadata, if any.
fn objection(package: &Value) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    if let Some(source) = package["source"].as_str() {
        if !(source.starts_with("registry+") && source.ends_with(REGISTRY)) {
            return Some(format!("{name}: found the source `{source}`; expected the registry"));
        }
    }
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name}: found no licence expression; expected one"));
    };
    match satisfied(licence) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name}: found the licence `{licence}`; expected one out of {ALLOWED:?}")),
        Err(error) => Some(format!("{name}: found the licence `{licence}`: {error}")),
    }
}

#[test]
fn everything_used_may_be_shipped() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/tidy has a grandparent");
    // Only packages used here: crates for other systems would have to be downloaded for their licence.
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform", &host])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("cargo lists the packages");
    assert!(packages.len() > 6, "only {} packages found", packages.len());
    let objections: Vec<String> = packages.iter().filter_map(objection).collect();
    assert!(
        objections.is_empty(),
        "{} packages may not be used:\n{}",
        objections.len(),
        objections.join("\n")
    );
}

#[test]
fn expressions_are_evaluated() {
    let cases = [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("MIT/Apache-2.0", true),
        ("GPL-2.0 OR MIT", true),
        ("GPL-2.0 AND MIT", false),
        ("(MIT OR GPL-2.0) AND Unicode-3.0", true),
        ("MIT OR GPL-2.0 AND LGPL-2.1", true),
        ("(MIT OR GPL-2.0) AND LGPL-2.1", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("GPL-2.0 WITH Classpath-exception-2.0 OR ISC", true),
        ("MIT WITH Some-exception", false),
    ];
    for (expression, expected) in cases {
        assert_eq!(satisfied(expression), Ok(expected), "{expression}");
    }
    for broken in ["", "MIT OR", "(MIT", "MIT)", "OR MIT", "MIT ISC"] {
        assert!(satisfied(broken).is_err(), "{broken}");
    }
}

#[test]
fn a_bad_package_is_named() {
    let package = |licence: Value, source: Value| {
        let package =
            serde_json::json!({"name": "a", "version": "1.0.0", "license": licence, "source": source});
        objection(&package)
    };
    let registry = Value::from(format!("registry+https://github.com/rust-lang{REGISTRY}"));
    assert_eq!(package("MIT".into(), Value::Null), None);
    assert_eq!(package("MIT".into(), registry.clone()), None);
    for bad in [
        package("AGPL-3.0-only".into(), registry.clone()),
        package("MIT AND".into(), registry.clone()),
        package(Value::Null, registry),
        package("MIT".into(), "git+https://example.org/a".into()),
        package("MIT".into(), "registry+https://example.org/index".into()),
    ] {
        assert!(bad.is_some_and(|text| text.starts_with("a 1.0.0: found ")));
    }
}
