//! TLS certificate of a listener, replaceable while the listener serves.

use std::io;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Certificate of a listener. Clones share it, and each handshake uses the current one.
#[derive(Clone)]
pub struct Certificate(Arc<ArcSwap<rustls::ServerConfig>>);

impl Certificate {
    /// Reads a certificate chain and its key from files.
    ///
    /// # Errors
    /// A file cannot be read, or the key does not belong to the certificate.
    pub fn read(chain: &Path, key: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(ArcSwap::new(tls_config(chain, key)?))))
    }

    /// Reads the certificate of a listener that has TLS.
    ///
    /// # Errors
    /// See [`Certificate::read`].
    pub fn configured(tls: Option<(&Path, &Path)>) -> io::Result<Option<Self>> {
        tls.map(|(chain, key)| Self::read(chain, key)).transpose()
    }

    /// Replaces the certificate in all clones.
    pub fn replace(&self, next: &Self) {
        self.0.store(next.0.load_full());
    }

    /// Creates a TLS acceptor with the current certificate.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.load_full())
    }
}

fn tls_config(chain: &Path, key: &Path) -> io::Result<Arc<rustls::ServerConfig>> {
    let bad = |path: &Path, e: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", path.display()))
    };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| bad(chain, &e))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| bad(key, &e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|e| bad(chain, &e))?;
    // The server speaks nothing else, so a client must not negotiate HTTP/2.
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}
