//! `seekless man` and `seekless completions`, made from the parser, and the text of `--version`.

use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::Context;
use clap::Args;
use clap_complete::Shell;

use crate::{help, output};

/// Examples, as `--help` shows them.
pub const MAN_HELP: &str = "\
Examples:
  seekless man | man -l -
  seekless man --folder /usr/local/share/man/man1";

/// Examples, as `--help` shows them.
pub const COMPLETIONS_HELP: &str = "\
Examples:
  seekless completions bash > /etc/bash_completion.d/seekless
  seekless completions zsh > ~/.zfunc/_seekless
  seekless completions fish > ~/.config/fish/completions/seekless.fish";

/// Arguments of `man`.
#[derive(Args)]
pub struct Man {
    /// Write a page for each command into this folder, rather than the first one to standard output
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Arguments of `completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Writes the manual pages.
pub fn man(arguments: &Man) -> anyhow::Result<()> {
    let command = help::command();
    if let Some(folder) = &arguments.folder {
        return clap_mangen::generate_to(command, folder).with_context(|| folder.display().to_string());
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    output::print(&String::from_utf8_lossy(&page))
}

/// Writes a shell's completions.
pub fn completions(arguments: &Completions) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut help::command(), "seekless", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// The version, the commit if the build names it (`make build` does), and the features.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let features = [
            ("parquet", cfg!(feature = "parquet")),
            ("tls", cfg!(feature = "tls")),
            ("system-compression", cfg!(feature = "system-compression")),
            ("vhost", cfg!(feature = "vhost")),
            ("web", cfg!(feature = "web")),
        ];
        let on: Vec<&str> = features.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
        let on = if on.is_empty() { "none".to_owned() } else { on.join(" ") };
        let commit = option_env!("SEEKLESS_COMMIT").filter(|commit| !commit.is_empty());
        let commit = commit.map(|commit| format!("commit {commit}, ")).unwrap_or_default();
        format!("{} ({commit}features: {on})", env!("CARGO_PKG_VERSION"))
    });
    &VERSION
}
