//! Parses the description of a workload: `oltp`, `oltp:mpl=10,think=5ms`, `mix:3*oltp+1*seq:streams=2`,
//! `phases:10m*(mix:3*oltp+1*seq)+500*random`.
//!
//! A name, then after a colon its options separated by commas, or for a mixture its members separated by plus signs,
//! each after its weight or its length and a `*`. A member that is a mixture itself is in parentheses. Faults: any
//! text; nesting is bounded, so that none exhausts the stack.

use super::keys::{Keys, WorkloadError};
use super::{Load, WORKLOADS, mix, phases};
use seekless_core::names::perhaps;

/// Depth of nested mixtures, at most.
const DEEPEST: usize = 8;
/// Members of a mixture, at most.
const MEMBERS: usize = 64;

/// A member of a mixture, and the text before its `*`.
pub struct Member<'a> {
    /// Weight or length; empty if not given.
    pub factor: &'a str,
    /// The workload.
    pub load: Load,
}

/// Parses a workload.
pub fn parse(text: &str) -> Result<Load, WorkloadError> {
    nested(text, 0)
}

/// `text` with `options` appended, for keys that it does not have itself.
pub fn defaulted(text: &str, options: &[(&str, String)]) -> Result<String, WorkloadError> {
    if options.is_empty() {
        return Ok(text.to_owned());
    }
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut all: Vec<String> = rest.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect();
    for (key, value) in options {
        if all.iter().any(|item| item.split('=').next().is_some_and(|given| given.trim() == *key)) {
            let found = format!("--{key} and {key}= in '{text}'");
            return Err(WorkloadError::new(format!("workload {name}, {key}"), found, "one of them"));
        }
        all.push(format!("{key}={value}"));
    }
    Ok(format!("{name}:{}", all.join(",")))
}

fn nested(text: &str, depth: usize) -> Result<Load, WorkloadError> {
    let text = text.trim();
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let Some(entry) = WORKLOADS.iter().find(|entry| entry.name == name.trim()) else {
        let known: Vec<&str> = WORKLOADS.iter().map(|entry| entry.name).collect();
        return Err(WorkloadError::new(
            "workload",
            format!("'{name}'"),
            format!("one of: {}{}", known.join(", "), perhaps(name, known.iter().copied())),
        ));
    };
    let Some(make) = entry.make else {
        let members = members(entry.name, rest, depth)?;
        let workload = if entry.name == mix::ENTRY.name { mix::of(members)? } else { phases::of(members)? };
        return Ok(Load { name: entry.name, workload, at: 0, area: None });
    };
    let keys = Keys::parse(entry, rest)?;
    let workload = make(&keys)?;
    let at = keys.sectors("at", 0..=u64::MAX)?;
    let area = keys.area(entry.area)?;
    let needs = workload.needs();
    if area.is_some_and(|area| area < needs) {
        let least = seekless_core::Size(needs.saturating_mul(512));
        return Err(keys.error("area", format!("at least {least} for these options")));
    }
    Ok(Load { name: entry.name, workload, at, area })
}

fn members<'a>(name: &str, text: &'a str, depth: usize) -> Result<Vec<Member<'a>>, WorkloadError> {
    let place = || format!("workload {name}");
    if depth >= DEEPEST {
        return Err(WorkloadError::new(place(), "it nested too deep", format!("at most {DEEPEST} levels")));
    }
    let items = split(text, '+');
    if text.trim().is_empty() || items.len() > MEMBERS {
        let found = if text.trim().is_empty() { 0 } else { items.len() };
        return Err(WorkloadError::new(
            place(),
            format!("{found} members"),
            format!("1 to {MEMBERS}, such as {name}:3*oltp+1*seq"),
        ));
    }
    let member = |item: &'a str| {
        let parts = split(item, '*');
        let (factor, inner) = match parts.as_slice() {
            [inner] => ("", *inner),
            [factor, inner] => (factor.trim(), *inner),
            _ => return Err(WorkloadError::new(place(), format!("'{item}'"), "one * before a workload")),
        };
        let inner = inner.trim();
        let bare = inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(inner);
        Ok(Member { factor, load: nested(bare, depth + 1)? })
    };
    items.into_iter().map(member).collect()
}

/// The parts of `text` between `mark`s outside of parentheses.
fn split(text: &str, mark: char) -> Vec<&str> {
    let (mut parts, mut from, mut inside) = (Vec::new(), 0, 0_usize);
    for (at, each) in text.char_indices() {
        match each {
            '(' => inside += 1,
            ')' => inside = inside.saturating_sub(1),
            _ if each == mark && inside == 0 => {
                parts.push(&text[from..at]);
                from = at + each.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}
