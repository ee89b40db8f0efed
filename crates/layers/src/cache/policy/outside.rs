//! Policies that are not of this crate: the program gives them for a piece of work, which knows them by their names.
//!
//! Invariant: they are those of one thread; a policy is made where its cache is built.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::names::interned;

use super::{Kind, Policy};
use crate::Refused;

/// Makes a policy for a cache of this many pages.
pub type Make = Rc<dyn Fn(u64) -> Box<dyn Policy>>;

thread_local! {
    static GIVEN: RefCell<Vec<(&'static str, Make)>> = const { RefCell::new(Vec::new()) };
}

/// Removes those given last, also after a panic.
struct Until(usize);

impl Drop for Until {
    fn drop(&mut self) {
        GIVEN.with_borrow_mut(|given| given.truncate(self.0));
    }
}

/// Does work that knows these policies as well, by their names. A name that is taken is an error.
pub fn with<T>(policies: Vec<(String, Make)>, work: impl FnOnce() -> T) -> Result<T, Refused> {
    let _until = Until(GIVEN.with_borrow(Vec::len));
    for (name, make) in policies {
        if name.parse::<Kind>().is_ok() {
            return Err(Refused::new("", format!("two policies named '{name}'"), "a name for each"));
        }
        GIVEN.with_borrow_mut(|given| given.push((interned(&name), make)));
    }
    Ok(work())
}

/// Names of those that are given now.
pub(super) fn names() -> Vec<&'static str> {
    GIVEN.with_borrow(|given| given.iter().map(|(name, _)| *name).collect())
}

/// A new policy of this name, if one is given.
pub(super) fn make(name: &str, pages: u64) -> Option<Box<dyn Policy>> {
    let found =
        |given: &Vec<(&str, Make)>| given.iter().find(|(of, _)| *of == name).map(|(_, make)| make.clone());
    GIVEN.with_borrow(found).map(|make| make(pages))
}
