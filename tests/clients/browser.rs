//! The page of `seekless web` and `lab run --web` in headless Chromium, where it is installed: it has no console
//! messages, does not scroll sideways on a phone, in light and dark, and shows names as text.
//!
//! `SEEKLESS_PICTURES` names a folder for pictures of the page.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::dashboard::{MARKUP, Page, served};
use crate::raw::Raw;
use crate::server::{Server, skipped};

/// Its protocol comes and goes through pipes, as files 3 and 4; a sandbox of its own it has not as root.
const CHROMIUM: &str = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --remote-debugging-pipe --user-data-dir=\"$0\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";

/// A browser with one page; killed when dropped.
struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    number: u64,
    session: Option<String>,
    /// Console messages and exceptions.
    messages: Vec<String>,
}

impl Browser {
    /// Starts one; `None`, with a message, where there is none.
    fn start(folder: &Path) -> Option<Browser> {
        if !Command::new("chromium").arg("--version").output().is_ok_and(|output| output.status.success()) {
            skipped("chromium", "it is not installed");
            return None;
        }
        let mut command = Command::new("sh");
        command
            .args(["-c", CHROMIUM])
            .arg(folder.join("profile"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut browser = Browser { child, input, output, number: 0, session: None, messages: Vec::new() };
        let target =
            browser.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}));
        }
        Some(browser)
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut text = Vec::new();
            self.output.read_until(0, &mut text).unwrap();
            text.pop();
            let mut answer: Value = serde_json::from_slice(&text).expect("the browser answers");
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            let kinds = ["Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"];
            if kinds.iter().any(|kind| answer["method"] == *kind) {
                self.messages.push(answer["params"].to_string());
            }
        }
    }

    fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
    }

    fn look(&mut self, width: u32, scheme: &str) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// The value of an expression.
    fn value(&mut self, expression: &str) -> Value {
        let evaluate = json!({ "expression": expression, "returnByValue": true });
        self.call("Runtime.evaluate", &evaluate)["result"]["value"].take()
    }

    /// Waits until an expression is true.
    fn wait(&mut self, expression: &str) {
        let since = Instant::now();
        while self.value(expression) != true {
            let text = self.value("document.body.innerText");
            assert!(since.elapsed() < Duration::from_secs(40), "{expression}: {text}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Keeps a picture of the whole page, if a folder for pictures is named.
    fn keep_picture(&mut self, name: &str) {
        let Ok(folder) = std::env::var("SEEKLESS_PICTURES") else { return };
        let size = self.value("[innerWidth, document.documentElement.scrollHeight]");
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
        let how = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let picture = self.call("Page.captureScreenshot", &how)["data"].take();
        let file = Path::new(&folder).join(name);
        // As the protocol has it: base 64.
        let mut decoder = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(file).unwrap())
            .spawn()
            .unwrap();
        decoder.stdin.take().unwrap().write_all(picture.as_str().unwrap().as_bytes()).unwrap();
        assert!(decoder.wait().unwrap().success());
    }

    /// The page in all widths and colours: it fits, and says nothing on the console.
    fn check(&mut self, name: &str) {
        for (width, scheme) in [(390, "light"), (390, "dark"), (1280, "dark"), (1280, "light")] {
            self.look(width, scheme);
            std::thread::sleep(Duration::from_millis(1500));
            self.keep_picture(&format!("{name}-{width}-{scheme}.png"));
            let fits = "document.documentElement.scrollWidth <= innerWidth";
            assert_eq!(self.value(fits), true, "{name} at {width} in {scheme} scrolls sideways");
            let dark = self.value("getComputedStyle(document.body).backgroundColor");
            assert_eq!(dark != "rgb(255, 255, 255)", scheme == "dark", "{dark}");
        }
        assert_eq!(self.messages, [""; 0], "{name}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_of_a_volume_shows_names_as_text_fits_a_phone_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let Some(mut browser) = Browser::start(folder) else { return };
    let server = served(folder);
    let page = Page::of(folder);
    browser.look(390, "light");
    browser.open(&page.url);
    let mut raw = Raw::open(folder, MARKUP);
    for number in 0..2000 {
        raw.write(0, (number % 97) << 19, &[1; 4096]).unwrap();
        raw.read((number % 89) << 19, 8192).unwrap();
    }
    let place = format!("document.getElementById('place').value === 'export {MARKUP}'");
    browser.wait(&place);
    browser.wait("document.querySelectorAll('#charts canvas').length >= 4");
    browser.wait("!document.getElementById('heat').hidden");
    let text = browser.value("document.body.innerText").to_string();
    assert!(text.contains(MARKUP) && text.contains("Throughput") && text.contains("events from here on"));
    assert_eq!(browser.value("document.images.length + (window.pwned || 0)"), 0);
    browser.check("volume");
    server.stop();
    browser.wait("document.getElementById('words').textContent.includes('is the volume served?')");
    assert_eq!(browser.value("document.getElementById('now').hidden"), true, "it is not so any more");
    let server = Server::start(folder, "threads").unwrap();
    browser.wait("document.getElementById('words').textContent === 'live'");
    browser.wait("!document.getElementById('now').hidden");
    assert_eq!(browser.messages, [""; 0]);
    drop(page);
    browser.wait("document.getElementById('words').textContent.includes('no connection to seekless')");
    server.stop();
}

#[test]
fn the_page_of_a_run_stays_when_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(folder.path()) else { return };
    let words = "lab run --workload random --layer none --requests 150000 --web";
    let page = Page::start(folder.path(), &words.split(' ').collect::<Vec<_>>());
    browser.look(1280, "light");
    browser.open(&page.url);
    browser.wait("document.getElementById('words').textContent.includes('the run has ended')");
    let text = browser.value("document.body.innerText").to_string();
    assert!(text.contains("virtual time") && text.contains("device disk"), "{text}");
    browser.check("run");
}

#[test]
fn reports_fit_a_phone_and_save_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(folder.path()) else { return };
    let commands: [(&str, &[&str]); 2] = [
        ("trace", &["trace", "report", "svnserver2", "vmboot", "-o", "trace.html"]),
        ("compare", &["lab", "compare", "--trace", "vmboot", "--report", "compare.html"]),
    ];
    for (name, words) in commands {
        let ran =
            Command::new(env!("CARGO_BIN_EXE_seekless")).args(words).current_dir(folder.path()).output();
        assert!(ran.unwrap().status.success(), "{words:?}");
        browser.look(1280, "light");
        browser.open(&format!("file://{}", folder.path().join(format!("{name}.html")).display()));
        browser.wait("document.querySelectorAll('.data a').length > 40");
        let lost = "[...document.querySelectorAll('.contents a')].filter(a => !document.querySelector(a.hash)).length";
        assert_eq!(browser.value(lost), 0, "{name}");
        // What the first link of a chart of lines saves.
        browser.value(
            "(() => {
                const make = URL.createObjectURL;
                URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return make(blob); };
                document.querySelector('#rank-frequency .data a').click();
            })()",
        );
        browser.wait("window.saved !== undefined");
        let saved = browser.value("window.saved").to_string();
        assert!(saved.starts_with("\"rank of the page,reads,writes\\n1,"), "{name}: {saved}");
        browser.check(name);
        if name == "trace" {
            // A stroke across one chart of the time, and all show that part.
            browser.value(
                "(() => {
                    const over = document.querySelector('#throughput .u-over'), box = over.getBoundingClientRect();
                    const at = (who, type, x) => who.dispatchEvent(new MouseEvent(type, { bubbles: true, button: 0, movementX: 9,
                        clientX: box.left + x * box.width, clientY: box.top + 40 }));
                    at(over, 'mousedown', 0.25); at(over, 'mousemove', 0.5); at(document, 'mouseup', 0.5);
                })()",
            );
            let shown = "[...document.querySelectorAll('[data-shown]')].map((one) => one.dataset.shown)";
            browser.wait(&format!("new Set({shown}).size === 1 && !{shown}[0].startsWith('0.00')"));
            assert!(browser.value(&format!("{shown}.length")).as_u64().unwrap() >= 8);
        }
    }
}
