//! `seekless web`: a page for a browser that shows what a running volume does, and changes nothing.
//!
//! A thread samples ([`live`], or [`run`] of a run in the laboratory) once a second into the [`hub`], and another one
//! ([`serve`]) answers browsers from there. So a browser costs a volume nothing, whatever it does.
//!
//! Fault model: any local user can connect and send anything; only those with the token get anything but a refusal.
//! Names come from volume files and may hold markup; the page shows them as text.

mod hub;
mod listener;
mod live;
mod page;
pub mod run;

mod sample;
mod serve;
mod work;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::Usage;
use crate::output;
use crate::volume::status::{parsed, status};
use hub::Hub;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless web home.toml
  seekless web home.toml --listen 127.0.0.1:8080

Prints the address of the page, with a token that is new each time: only a browser that has it gets anything. The page \
shows throughput, response times, hits, accesses by address, what layers are doing, and events, of the last ten minutes \
and from then on. It only reads the server's control socket. Ctrl-C ends it. From another machine: \
ssh -L 8080:127.0.0.1:8080 SERVER.";

/// Any free port.
pub const ANY_PORT: &str = "127.0.0.1:0";

/// Arguments of `web`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file that is being served, or its control socket
    #[arg(value_name = "VOLUME.toml|SOCKET")]
    volume: PathBuf,
    /// Listen here, on a loopback address [default: 127.0.0.1, any free port]
    #[arg(long, value_name = "ADDRESS:PORT", default_value = ANY_PORT, hide_default_value = true)]
    listen: SocketAddr,
}

/// Serves the page until a signal ends the process.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    expect_loopback("--listen", arguments.listen)?;
    let first = parsed(status(&arguments.volume)?)?;
    let hub = Arc::new(Hub::new(hub::Clock::Wall));
    open(arguments.listen, &hub)?;
    live::watch(&arguments.volume, first, &hub)
}

/// Checks that other machines do not reach an address.
pub fn expect_loopback(option: &str, address: SocketAddr) -> anyhow::Result<()> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let why = format!(
        "{option}: found {address}, which other machines reach, expected a loopback address such as 127.0.0.1:8080; \
         from another machine: ssh -L"
    );
    Err(Usage(why).into())
}

/// Serves the page, and prints its address to stderr, where no result is.
fn open(address: SocketAddr, hub: &Arc<Hub>) -> anyhow::Result<()> {
    let url = serve::serve(address, hub)?;
    output::complain(&format!("page: {url}"));
    Ok(())
}
