//! Clients by TLS: those with a certificate of the right authority are admitted, all others are refused, and no
//! other client is affected. Certificates are made by openssl.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::noise;
use crate::raw::Raw;
use crate::server::{KINDS, Server, client, serve, skipped, succeeds, volume};

const MIB: usize = 1 << 20;
const TLS_REQUIRED: u32 = 1 << 31 | 5;
const INVALID: u32 = 1 << 31 | 3;

/// Runs openssl in a folder; `None`, with a message, where it is not installed.
fn openssl(folder: &Path, line: &str) -> Option<()> {
    let output = Command::new("openssl").args(line.split(' ')).current_dir(folder).output();
    let Ok(output) = output else {
        skipped("openssl", "it is not installed");
        return None;
    };
    assert!(output.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// An authority in a folder of its own, with a server and a client that it signed; under the file names that clients
/// expect.
pub fn authority(folder: PathBuf, days: i32) -> Option<PathBuf> {
    std::fs::create_dir_all(&folder).unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        &folder,
        &format!("req -x509 {key} -keyout ca-key.pem -out ca-cert.pem -days 3650 -subj /CN=authority"),
    )?;
    std::fs::write(folder.join("extensions"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .unwrap();
    for (who, days) in [("server", 3650), ("client", days)] {
        openssl(&folder, &format!("req {key} -keyout {who}-key.pem -out {who}.csr -subj /CN={who}"))?;
        let by = "-CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -extfile extensions";
        openssl(&folder, &format!("x509 -req -in {who}.csr {by} -days {days} -out {who}-cert.pem"))?;
    }
    Some(folder)
}

/// 64 MiB of memory, encrypted, at a socket and at a port; the URI at the port is for certificates in a folder.
struct Encrypted {
    server: Server,
    port: u16,
}

impl Encrypted {
    fn start(folder: &Path, kind: &str) -> Option<Encrypted> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let export = |name, at| format!("[[export]]\ntop = \"m\"\nname = \"{name}\"\nnbd = \"{at}\"\n");
        let text = format!(
            "[tls]\ncertificate = \"ours/server-cert.pem\"\nkey = \"ours/server-key.pem\"\n\
             clients = \"ours/ca-cert.pem\"\n[component.m]\nram = \"64MiB\"\n{}{}",
            export("m", format!("unix:{}", folder.join("socket").display())),
            export("port", format!("tcp:127.0.0.1:{port}")),
        );
        std::fs::write(folder.join("volume.toml"), text).unwrap();
        Some(Encrypted { server: Server::start(folder, kind)?, port })
    }

    fn uri(&self, certificates: &Path) -> String {
        let socket = self.server.folder.join("socket");
        format!("nbds+unix:///m?socket={}&tls-certificates={}", socket.display(), certificates.display())
    }

    /// A correct client succeeds.
    fn serves(&self, certificates: &Path) {
        if let Some(said) = succeeds("nbdinfo", &["--size", &self.uri(certificates)]) {
            assert_eq!(said.trim(), "67108864");
        }
    }
}

#[test]
fn clients_with_a_certificate_are_served_encrypted() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let Some(ours) = authority(folder.join("ours"), 3650) else { return };
        let Some(encrypted) = Encrypted::start(folder, kind) else { continue };
        let uri = encrypted.uri(&ours);
        if let Some(said) = succeeds("nbdinfo", &[&uri]) {
            assert!(said.contains("with TLS") && said.contains("seekless:place"), "{said}");
        }
        let (source, target) = (folder.join("source"), folder.join("target"));
        std::fs::write(&source, noise(64 * MIB, 5)).unwrap();
        let [source, target] = [source, target].map(|path| path.display().to_string());
        if succeeds("nbdcopy", &["--flush", &source, &uri]).is_none() {
            continue;
        }
        succeeds("nbdcopy", &[&uri, &target]);
        assert!(std::fs::read(&source).unwrap() == std::fs::read(&target).unwrap(), "{kind}");
        // QEMU connects by the port, and with extended headers.
        let keys = format!("tls-creds-x509,id=keys,endpoint=client,dir={}", ours.display());
        let image = format!("driver=nbd,host=localhost,port={},export=port,tls-creds=keys", encrypted.port);
        let all = [
            "compare",
            "--object",
            &keys,
            "--image-opts",
            &format!("driver=raw,file.driver=file,file.filename={source}"),
            &image,
        ];
        if let Some(said) = succeeds("qemu-img", &all) {
            assert!(said.contains("identical"), "{said}");
        }
        let last = encrypted.server.stop();
        assert!(last.contains(", 0 of them with an error"), "{last}");
    }
}

#[test]
fn clients_without_a_certificate_that_counts_are_refused() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let Some(ours) = authority(folder.join("ours"), 3650) else { return };
        let others = authority(folder.join("others"), 3650).unwrap();
        let late = authority(folder.join("late"), 3650).unwrap();
        // Signed by ours, but expired yesterday.
        let by = format!("-CA {0}/ca-cert.pem -CAkey {0}/ca-key.pem -CAcreateserial", ours.display());
        openssl(
            &late,
            &format!("x509 -req -in client.csr {by} -extfile extensions -days -1 -out client-cert.pem"),
        );
        // All of them know the server's authority.
        let nobody = folder.join("nobody");
        std::fs::create_dir(&nobody).unwrap();
        for folder in [&others, &late, &nobody] {
            std::fs::copy(ours.join("ca-cert.pem"), folder.join("ca-cert.pem")).unwrap();
        }
        let Some(mut encrypted) = Encrypted::start(folder, kind) else { continue };
        for (who, why) in [
            (&nobody, "it showed no certificate"),
            (&others, "its certificate is not accepted"),
            (&late, "its certificate is not accepted"),
        ] {
            let Some(refused) = client("nbdinfo", &["--size", &encrypted.uri(who)]) else { break };
            assert!(!refused.status.success(), "{who:?} was let in");
            let line = encrypted.server.line();
            assert!(line.contains(why), "{line}");
            encrypted.serves(&ours);
        }
        let plain = format!("nbd+unix:///m?socket={}", folder.join("socket").display());
        for uri in [plain, format!("nbd://localhost:{}/port", encrypted.port)] {
            let Some(refused) = client("nbdinfo", &["--size", &uri]) else { break };
            assert!(!refused.status.success(), "plain text was let in");
        }
        encrypted.serves(&ours);
        encrypted.server.stop();
    }
}

#[test]
fn nothing_but_tls_is_answered_before_it_and_garbage_ends_its_client() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let Some(ours) = authority(folder.join("ours"), 3650) else { return };
        let Some(encrypted) = Encrypted::start(folder, kind) else { continue };
        let connect = || {
            let mut raw = Raw::connect(folder);
            raw.send(&3_u32.to_be_bytes()).unwrap();
            raw
        };
        let mut raw = connect();
        for option in [3, 6, 7, 8, 9, 10, 11, 99] {
            raw.option(option, b"\0\0\0\x01m\0\0").unwrap();
            assert_eq!(raw.option_reply().unwrap().0, TLS_REQUIRED, "option {option}");
        }
        raw.option(5, &[1]).unwrap();
        assert_eq!(raw.option_reply().unwrap().0, INVALID, "STARTTLS has no data");
        raw.option(1, b"m").unwrap();
        assert!(raw.take(1).is_err(), "the old way to begin has no way to say no");
        // TLS is requested, but does not follow; or only half of it.
        let hello = [&b"\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03"[..], &[7; 200]].concat();
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &vec![0x16; 40_000], &[0; 5], &hello] {
            let mut raw = connect();
            raw.option(5, &[]).unwrap();
            assert_eq!(raw.option_reply().unwrap().0, 1);
            raw.send(bytes).unwrap();
            raw.socket.shutdown(std::net::Shutdown::Write).unwrap();
            // At most TLS's own closing alert.
            assert!(raw.take(100).is_err());
            encrypted.serves(&ours);
        }
        // Bytes sent together with the request for TLS would count as encrypted: they do not.
        let mut raw = connect();
        let list = |option: u32| [b"IHAVEOPT", &option.to_be_bytes()[..], &[0; 4]].concat();
        raw.send(&[list(5), list(3)].concat()).unwrap();
        assert!(raw.take(21).is_err());
        let silent: Vec<Raw> = (0..20).map(|_| connect()).collect();
        encrypted.serves(&ours);
        drop(silent);
        encrypted.server.stop();
    }
}

/// The first TLS message of a real client, to a server of ours that only listens. `None` where there is
/// no nbdinfo.
fn hello(folder: &Path, certificates: &Path) -> Option<Vec<u8>> {
    let path = folder.join("listener");
    let listener = UnixListener::bind(&path).unwrap();
    let uri = format!("nbds+unix:///m?socket={}&tls-certificates={}", path.display(), certificates.display());
    let mut info = match Command::new("nbdinfo").arg(uri).stderr(Stdio::null()).spawn() {
        Ok(info) => info,
        Err(error) => {
            skipped("nbdinfo", &error.to_string());
            return None;
        }
    };
    let (mut socket, _) = listener.accept().unwrap();
    socket.write_all(b"NBDMAGICIHAVEOPT\0\x03").unwrap();
    let mut asked = [0; 4 + 16];
    socket.read_exact(&mut asked).unwrap();
    assert_eq!(asked[12..16], [0, 0, 0, 5], "it asks for TLS first");
    let ack = [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &[0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0]].concat();
    socket.write_all(&ack).unwrap();
    let mut header = [0; 5];
    socket.read_exact(&mut header).unwrap();
    let mut rest = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
    socket.read_exact(&mut rest).unwrap();
    info.kill().unwrap();
    info.wait().unwrap();
    Some([&header[..], &rest].concat())
}

#[test]
fn a_real_hello_with_bytes_changed_harms_nobody() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let Some(ours) = authority(folder.join("ours"), 3650) else { return };
        let Some(hello) = hello(folder, &ours) else { return };
        let Some(encrypted) = Encrypted::start(folder, kind) else { continue };
        for (turn, place) in noise(8 * 400, 9).chunks(8).enumerate() {
            let mut changed = hello.clone();
            // One to four bytes are changed; every eighth hello ends early, or is too long.
            for change in place[..8].chunks(2).take(1 + turn % 4) {
                let at = (usize::from(change[0]) * 97 + turn) % changed.len();
                changed[at] = change[1];
            }
            match turn % 16 {
                0 => changed.truncate(usize::from(place[7]) * changed.len() / 256),
                8 => changed.extend_from_slice(&hello),
                _ => {}
            }
            let mut raw = Raw::connect(folder);
            raw.send(&3_u32.to_be_bytes()).unwrap();
            raw.option(5, &[]).unwrap();
            assert_eq!(raw.option_reply().unwrap().0, 1);
            // It may be disconnected while it sends.
            let _ = raw.send(&changed);
            let _ = raw.socket.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = raw.socket.read_to_end(&mut answer);
            assert!(answer.len() < 16 << 10, "{kind}: turn {turn}: {} bytes for a hello", answer.len());
        }
        encrypted.serves(&ours);
        let last = encrypted.server.stop();
        assert!(last.contains(", 0 of them with an error"), "{last}");
    }
}

#[test]
fn certificates_that_cannot_be_used_are_reported_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let Some(_) = authority(folder.join("ours"), 3650) else { return };
    authority(folder.join("others"), 3650).unwrap();
    std::fs::write(folder.join("empty.pem"), "nothing").unwrap();
    let (cert, key, ca) = ("ours/server-cert.pem", "ours/server-key.pem", "ours/ca-cert.pem");
    for (certificate, key, clients, words) in [
        ("none.pem", key, ca, ["tls.certificate", "none.pem"]),
        ("empty.pem", key, ca, ["tls.certificate", "no certificate in it"]),
        (cert, "none.pem", ca, ["tls.key", "none.pem"]),
        (cert, "others/server-key.pem", ca, ["tls.certificate", "ours/server-cert.pem"]),
        (cert, key, "empty.pem", ["tls.clients", "no certificate in it"]),
    ] {
        let text = format!(
            "[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\nclients = \"{clients}\"\n\
             [component.m]\nram = \"1MiB\"\n[[export]]\ntop = \"m\"\nnbd = \"unix:socket\"\n"
        );
        std::fs::write(folder.join("volume.toml"), text).unwrap();
        let output = serve(folder, "threads").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        for word in words {
            assert!(said.contains(word), "no '{word}' in {said}");
        }
    }
}

#[test]
fn an_encrypted_export_of_another_server_is_a_component() {
    for kind in KINDS {
        let (folder, near) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let Some(ours) = authority(folder.path().join("ours"), 3650) else { return };
        let others = authority(folder.path().join("others"), 3650).unwrap();
        let Some(encrypted) = Encrypted::start(folder.path(), kind) else { continue };
        let uris = [
            format!("nbds+unix:///m?socket={}", folder.path().join("socket").display()),
            format!("nbds://localhost:{}/port", encrypted.port),
        ];
        let far = |uri: &str, authority: &Path, client: &Path| {
            let path = |folder: &Path, name: &str| folder.join(name).display().to_string();
            format!(
                "[component.far]\nnbd = \"{uri}\"\ntls = {{ authority = \"{}\", certificate = \"{}\", \
                 key = \"{}\" }}\n",
                path(authority, "ca-cert.pem"),
                path(client, "client-cert.pem"),
                path(client, "client-key.pem"),
            )
        };
        for (turn, uri) in uris.iter().enumerate() {
            volume(near.path(), &far(uri, &ours, &ours), &[("far", "")]);
            let server = Server::start(near.path(), kind).unwrap();
            let mut raw = Raw::open(near.path(), "far");
            let bytes = noise(3 * MIB, turn as u64);
            assert_eq!(raw.write(0, 4096, &bytes).unwrap(), 0);
            assert_eq!(raw.flush().unwrap(), 0);
            assert!(raw.read(4096, 3 * MIB as u32).unwrap() == bytes, "{kind}: {uri}");
            drop(raw);
            server.stop();
        }
        let wrong = [
            (far(&uris[0], &others, &ours), "is not accepted"),
            (far(&uris[0], &ours, &others), "component.far.nbd"),
            (format!("[component.far]\nnbd = \"{}\"\n", uris[0]), "expected tls = {...}"),
            (far(&uris[0].replace("nbds", "nbd"), &ours, &ours), "expected nbds://"),
        ];
        for (text, why) in wrong {
            volume(near.path(), &text, &[("far", "")]);
            let output = serve(near.path(), kind).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains(why), "{said}");
        }
        encrypted.serves(&ours);
    }
}

#[test]
fn a_key_that_is_too_short_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let Some(ours) = authority(folder.join("ours"), 3650) else { return };
    let text = "[tls]\ncertificate = \"ours/server-cert.pem\"\nkey = \"ours/server-key.pem\"\n\
                clients = \"ours/ca-cert.pem\"\n[component.m]\nram = \"1MiB\"\n\
                [[export]]\ntop = \"m\"\nnbd = \"unix:socket\"\n";
    std::fs::write(folder.join("volume.toml"), text).unwrap();
    for bits in [1024, 2432] {
        let request =
            format!("req -newkey rsa:{bits} -nodes -keyout server-key.pem -out s.csr -subj /CN=server");
        openssl(&ours, &request).unwrap();
        let by = "-CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -extfile extensions";
        openssl(&ours, &format!("x509 -req -in s.csr {by} -days 99 -out server-cert.pem")).unwrap();
        let output = serve(folder, "threads").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = [format!("an RSA key of {bits} bits"), "tls.key".to_owned()];
        assert!(!output.status.success() && expected.iter().all(|word| said.contains(word)), "{said}");
    }
}
