//! libnbd's own interoperability programs (`scripts/interop`): each starts a server by socket activation, and talks to
//! it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{KINDS, skipped};

/// The programs, and whether the server is to have certificates.
const PROGRAMS: &[(&str, bool)] = &[
    ("plain", false),
    ("default-name", false),
    ("list-exports", false),
    ("socket-activation", false),
    ("fallback", false),
    ("tls", true),
    ("tls-allow", true),
];

/// Where `scripts/clients` builds them, if it could.
fn built() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("seekless/interop")).filter(|folder| folder.exists())
}

/// A script that serves the file that it is given, below a cache.
fn server(folder: &Path, kind: &str, tls: bool) {
    let keys = if tls {
        "[tls]\\ncertificate = \"../tests/pki/server-cert.pem\"\\nkey = \"../tests/pki/server-key.pem\"\\n\
         clients = \"../tests/pki/ca-cert.pem\"\\n"
    } else {
        ""
    };
    let script = format!(
        "#!/bin/sh\nprintf '{keys}[component.file]\\nfile = \"%s\"\\n[layer.cache]\\nover = \"file\"\\nsize = \"1MiB\"\\n\
         [[export]]\\ntop = \"cache\"\\nname = \"disk\"\\nnbd = \"unix:unused\"\\n' \"$1\" >volume.toml\n\
         exec {} volume serve --io {kind} volume.toml\n",
        env!("CARGO_BIN_EXE_seekless")
    );
    let path = folder.join("server");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn programs_of_libnbd_pass() {
    let Some(programs) = built() else {
        skipped("libnbd's interoperability programs", "they are not built: scripts/clients");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    #[cfg(feature = "tls")]
    let tls = crate::tls::authority(folder.path().join("tests/pki"), 3650).is_some();
    #[cfg(not(feature = "tls"))]
    let tls = false;
    let run = folder.path().join("run");
    std::fs::create_dir(&run).unwrap();
    for kind in KINDS {
        for (program, encrypts) in PROGRAMS.iter().filter(|(_, encrypts)| tls || !encrypts) {
            server(&run, kind, *encrypts);
            // Not to a pipe, which a server that is left over would hold.
            let log = std::fs::File::create(run.join("log")).unwrap();
            let mut command = Command::new("timeout");
            command.arg("60").arg(programs.join(program)).current_dir(&run);
            command.env("STATE_DIRECTORY", run.join("state"));
            let status = command.stdout(log.try_clone().unwrap()).stderr(log).status().unwrap();
            let said = std::fs::read_to_string(run.join("log")).unwrap();
            assert!(status.success(), "{kind} {program}: {said}");
        }
    }
}
