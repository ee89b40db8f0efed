//! Checks JSON of the program against the schema that it names, as committed in docs/schemas.

use std::path::PathBuf;

use serde_json::{Value, json};

/// The committed schemas.
pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas"))
}

/// What a command printed, which has to fit its schema.
pub fn parsed(printed: &str) -> Value {
    let value = serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    check(&value);
    value
}

/// Checks an object, or each object of an array; the names of the schemas.
pub fn check(value: &Value) -> Vec<String> {
    let objects = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    objects.iter().map(check_one).collect()
}

fn check_one(object: &Value) -> String {
    let id = object["schema"].as_str().unwrap_or_else(|| panic!("names no schema: {object}"));
    let name =
        id.strip_prefix("seekless/").and_then(|rest| rest.strip_suffix("/1")).expect("seekless/NAME/1");
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut schema: Value = serde_json::from_str(&text).expect("JSON");
    close(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<String> =
        validator.iter_errors(object).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
    name.to_owned()
}

/// Has a schema refuse keys that it does not list, which it allows so that later versions may have more.
fn close(schema: &mut Value) {
    // One of several objects: each would refuse the keys beside them.
    let one_of_several = schema.get("anyOf").is_some();
    match schema {
        Value::Object(keys) => {
            if keys.contains_key("properties")
                && !keys.contains_key("additionalProperties")
                && !one_of_several
            {
                keys.insert("unevaluatedProperties".to_owned(), json!(false));
            }
            if !one_of_several {
                keys.values_mut().for_each(close);
            }
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => (),
    }
}
