//! Connections, of the server's clients and of components on other servers alike: buffered input, and TLS. The protocol
//! itself is [`crate::nbd`].

mod input;
mod keys_error;
#[cfg(feature = "tls")]
mod rsa;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;

pub(crate) use input::Input;
pub use keys_error::KeysError;
pub(crate) use tls::Tunnel;
pub use tls::{Keys, Trust};
