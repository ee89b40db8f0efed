//! What commands print as JSON: objects that name their schema, which `schema` lists.

use schemars::JsonSchema;
use serde::Serialize;

/// Version of all schemas: a key that is removed, or means something else, raises it; a further key does not.
const VERSION: u32 = 1;

/// What a command prints as JSON: an object that names its schema.
pub trait Printed: Serialize + JsonSchema {
    /// Name of the schema.
    const NAME: &'static str;
}

/// What an object has under `schema`.
pub fn id(name: &str) -> String {
    format!("seekless/{name}/{VERSION}")
}
