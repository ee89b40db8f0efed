//! The page of `seekless web`: requests and refusals over TCP, with a served volume and real reads and writes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::raw::Raw;
use crate::server::{Server, volume};

/// A name that a page must not take for markup.
pub const MARKUP: &str = "<img src=x onerror=pwned=1>";

/// A running `seekless web`, or another command with a page; killed when dropped.
pub struct Page {
    child: Child,
    /// Its address.
    pub url: String,
}

impl Page {
    /// Starts a command, and waits until it prints the address of its page.
    pub fn start(folder: &Path, words: &[&str]) -> Page {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
        command.args(words).current_dir(folder).env("STATE_DIRECTORY", folder.join("state"));
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.strip_prefix("page: ").map(str::to_owned)).unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Page { child, url }
    }

    /// The page of the volume file of a folder.
    pub fn of(folder: &Path) -> Page {
        Page::start(folder, &["web", "volume.toml"])
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn address(&self) -> SocketAddr {
        self.url.strip_prefix("http://").unwrap().split('/').next().unwrap().parse().unwrap()
    }

    fn token(&self) -> &str {
        self.url.split("token=").nth(1).unwrap()
    }

    fn send(&self, request: &str) -> BufReader<TcpStream> {
        let mut socket = TcpStream::connect(self.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        BufReader::new(socket)
    }

    /// Status and the rest of the answer to a request, whose `TOKEN` is replaced.
    fn answer(&self, request: &str) -> (u16, String) {
        let request = format!("{}\r\nConnection: close\r\n\r\n", request.replace("TOKEN", self.token()));
        let mut text = String::new();
        self.send(&request).read_to_string(&mut text).unwrap();
        (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
    }

    /// The stream of samples, or the status of its refusal.
    pub fn stream(&self) -> Result<Stream, u16> {
        let get = format!("GET /events?token={} HTTP/1.1\r\nHost: {}\r\n\r\n", self.token(), self.address());
        let mut reader = self.send(&get);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.split(' ').nth(1).unwrap().parse().unwrap() {
            200 => Ok(Stream(reader)),
            status => Err(status),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream of samples.
pub struct Stream(BufReader<TcpStream>);

impl Stream {
    /// The next object.
    pub fn next(&mut self) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream goes on");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data.trim_end()).unwrap();
            }
        }
    }

    /// The next object that fulfils a condition, within half a minute.
    pub fn find(&mut self, condition: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let value = self.next();
            if condition(&value) {
                return value;
            }
            assert!(since.elapsed() < Duration::from_secs(30), "{value}");
        }
    }
}

/// A volume in memory with a mapper, whose layer and export are named as if they were markup.
pub fn served(folder: &Path) -> Server {
    let layer =
        format!("[component.m]\nram = \"64MiB\"\n[layer.\"{MARKUP}\"]\nis = \"scrub\"\nover = \"m\"\n");
    volume(folder, &layer, &[(MARKUP, "")]);
    Server::start(folder, "threads").unwrap()
}

#[test]
fn only_a_browser_of_this_machine_with_the_token_gets_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path());
    let page = Page::of(folder.path());
    let host = format!("Host: {}", page.address());
    let wrong = format!("GET /?token={} HTTP/1.1\r\n{host}", "0".repeat(page.token().len()));
    let cases = [
        (format!("GET /?token=TOKEN HTTP/1.1\r\n{host}"), 200),
        ("GET /?token=TOKEN HTTP/1.1\r\nHost: localhost:9".to_owned(), 200),
        (format!("GET / HTTP/1.1\r\n{host}"), 403),
        (format!("GET /?token= HTTP/1.1\r\n{host}"), 403),
        (format!("GET /?token=TOKENx HTTP/1.1\r\n{host}"), 403),
        (wrong, 403),
        (format!("GET /events HTTP/1.1\r\n{host}"), 403),
        (format!("GET /nothing HTTP/1.1\r\n{host}"), 403),
        (format!("GET /nothing?token=TOKEN HTTP/1.1\r\n{host}"), 404),
        ("GET /?token=TOKEN HTTP/1.1\r\nHost: seekless.example".to_owned(), 403),
        ("GET /events?token=TOKEN HTTP/1.1\r\nHost: 127.0.0.1.seekless.example:80".to_owned(), 403),
        (format!("GET /?token=TOKEN HTTP/1.1\r\n{host}\r\nHost: seekless.example"), 403),
        ("GET /?token=TOKEN HTTP/1.0".to_owned(), 403),
        (format!("POST /?token=TOKEN HTTP/1.1\r\n{host}\r\nContent-Length: 0"), 405),
        (format!("HEAD /?token=TOKEN HTTP/1.1\r\n{host}"), 405),
        (format!("DELETE /events?token=TOKEN HTTP/1.1\r\n{host}"), 405),
    ];
    for (request, expected) in cases {
        let (status, text) = page.answer(&request);
        assert_eq!(status, expected, "{request}\n{text:.300}");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        for header in ["content-security-policy: default-src 'none'", "no-store", "no-referrer", "nosniff"] {
            assert!(head.contains(header), "{request}: no {header} in {head}");
        }
        assert!(status == 200 || !body.contains(page.token()) && body.len() < 200, "{body}");
    }
    let (_, text) = page.answer(&format!("GET /?token=TOKEN HTTP/1.1\r\n{host}"));
    assert!(text.len() < 8 << 20, "{} bytes", text.len());
    assert!(!text.contains("unsafe-inline") && !text.contains(" src=") && !text.contains("@import"));
    // Another start has another token.
    assert_ne!(Page::of(folder.path()).token(), page.token());
    server.stop();
}

#[test]
fn an_address_that_other_machines_reach_is_refused_and_so_is_a_volume_that_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    volume(folder.path(), "[component.m]\nram = \"1MiB\"\n", &[("m", "")]);
    let run = "lab run --workload random --layer none --requests 10";
    let cases = [
        ("web volume.toml --listen 0.0.0.0:0", 2, "which other machines reach"),
        ("web volume.toml --listen [::]:0", 2, "loopback"),
        ("web volume.toml --listen here", 2, "invalid"),
        ("web volume.toml", 1, "is the volume served?"),
        (&format!("{run} --web=10.0.0.1:80"), 2, "which other machines reach"),
    ];
    for (words, code, why) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
        let output = command.args(words.split(' ')).current_dir(folder.path()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), printed.contains(why)), (Some(code), true), "{words}: {printed}");
    }
}

#[test]
fn samples_have_what_clients_do_and_the_names_of_the_volume_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = served(folder);
    let page = Page::of(folder);
    let mut stream = page.stream().ok().unwrap();
    let history = stream.next();
    assert_eq!(history["clock"], "wall");
    let mut raw = Raw::open(folder, MARKUP);
    let place = format!("export {MARKUP}");
    for number in 0..50 {
        assert_eq!(raw.write(0, 32 << 20, &vec![number; 64 << 10]).unwrap(), 0);
        raw.read(0, 4096).unwrap();
    }
    let has = |list: &Value| list.as_array().unwrap().iter().position(|one| one["name"] == place.as_str());
    let moved = stream.find(|value| {
        has(&value["sample"]["places"]).is_some_and(|at| !value["sample"]["places"][at]["write"].is_null())
    });
    let sample = &moved["sample"];
    let written = &sample["places"][has(&sample["places"]).unwrap()]["write"];
    assert!(written[1].as_f64().unwrap() > 64e3 && written[0].as_f64().unwrap() > 1.0, "{written}");
    let map = &sample["maps"][has(&sample["maps"]).unwrap()];
    assert_eq!(map["part"], 256 << 10);
    let heat = map["heat"].as_str().unwrap();
    assert!(heat.len() == 129 && !heat.starts_with('0') && heat[1..128].bytes().all(|letter| letter == b'0'));
    let tell = ["volume", "tell", "volume.toml", MARKUP, "scrub"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    assert!(command.args(tell).current_dir(folder).status().unwrap().success());
    let events = stream.find(|value| value["events"].to_string().contains("ended"));
    assert!(events["events"].to_string().contains(MARKUP), "{events}");
    assert_eq!(events["now"]["layers"][0]["name"], MARKUP);
    // A new browser gets what was before.
    let history = page.stream().ok().unwrap().next();
    assert!(history["samples"].as_array().unwrap().iter().any(|one| one == sample), "{history}");
    assert!(history["events"].to_string().contains("began"), "{history}");
    server.stop();
    let gone = stream.find(|value| value["now"]["state"] == "gone");
    assert!(gone["now"]["words"].as_str().unwrap().contains("is the volume served?"), "{gone}");
    let server = Server::start(folder, "threads").unwrap();
    let again = stream.find(|value| value["now"]["state"] == "live");
    assert!(again["now"]["rows"].is_array());
    server.stop();
}

#[test]
fn one_browser_more_than_there_is_room_for_is_refused_and_a_thousand_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path());
    let page = Page::of(folder.path());
    let mut streams: Vec<Stream> = (0..64).map(|_| page.stream().ok().unwrap()).collect();
    let refused = page.answer(&format!("GET /events?token=TOKEN HTTP/1.1\r\nHost: {}", page.address()));
    assert_eq!((refused.0, refused.1.contains("64 browsers")), (503, true), "{refused:?}");
    let many: Vec<TcpStream> = (0..936)
        .filter_map(|_| TcpStream::connect_timeout(&page.address(), Duration::from_secs(5)).ok())
        .collect();
    for stream in &mut streams {
        assert!(stream.next()["samples"].is_array());
    }
    streams[63].find(|value| value["sample"].is_object());
    drop(many);
    streams.truncate(63);
    let since = Instant::now();
    while page.stream().is_err() {
        assert!(since.elapsed() < Duration::from_secs(30), "a browser that left makes room");
        std::thread::sleep(Duration::from_millis(100));
    }
    server.stop();
}

/// Resident memory of a process, in KiB.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// `SEEKLESS_WATCH` seconds, of which the first quarter is warming up; in it the history of ten minutes fills.
#[test]
fn a_page_that_is_watched_under_load_does_not_grow() {
    let seconds: u64 = std::env::var("SEEKLESS_WATCH").map_or(8, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = served(folder);
    let page = Page::of(folder);
    let ended = std::sync::atomic::AtomicBool::new(false);
    let over = || ended.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut raw = Raw::open(folder, MARKUP);
            for page in (0..1 << 14).cycle().take_while(|_| !over()) {
                raw.write(0, (page * 37 % (1 << 14)) << 12, &[7; 4096]).unwrap();
                raw.read((page * 91 % (1 << 14)) << 12, 4096).unwrap();
            }
        });
        // Some that stay, one that does not read, and some that come and go.
        for _ in 0..8 {
            scope.spawn(|| {
                let mut stream = page.stream().ok().unwrap();
                while !over() {
                    stream.next();
                }
            });
        }
        let _deaf = page.stream().ok();
        let (start, mut samples) = (Instant::now(), Vec::new());
        while start.elapsed() < Duration::from_secs(seconds) {
            for _ in 0..4 {
                drop(page.stream());
                page.stream().ok().unwrap().next();
            }
            samples.push(resident(page.id()));
            std::thread::sleep(Duration::from_millis(500));
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        let warm = samples[samples.len() / 4..].iter().take(samples.len() / 8).max().unwrap();
        let (last, most) = (samples.last().unwrap(), samples.iter().max().unwrap());
        eprintln!("watched for {seconds} s: {} KiB at first, {warm} when warm, {last} at last", samples[0]);
        assert!(*most < 96 << 10, "{most} KiB");
        // Ten minutes of history fill only once.
        assert!(seconds < 2400 || *last < warm + (warm / 10).max(2048), "{warm} KiB grew to {last} KiB");
    });
    server.stop();
}
