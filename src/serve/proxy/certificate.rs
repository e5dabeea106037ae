//! TLS certificate of a listener, replaceable while the listener serves.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
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

/// Whether the first certificate of a chain has expired, or is not valid yet.
pub fn is_outdated(chain: &Path) -> bool {
    let Ok(certificate) = CertificateDer::from_pem_file(chain) else {
        return false;
    };
    let mut roots = RootCertStore::empty();
    // Any root will do: the verifier checks the dates first.
    let _ = roots.add(certificate.clone());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let name = ServerName::from(IpAddr::from([127, 0, 0, 1]));
    let verified = verifier
        .ok()
        .map(|verifier| verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now()));
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(
        verified,
        Some(Err(rustls::Error::InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }
        )))
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_outside_of_its_dates_is_outdated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("chain.pem");
        for (from, until, outdated) in [(2020, 2021, true), (2020, 4000, false), (3999, 4000, true)] {
            let mut wanted = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
            wanted.not_before = rcgen::date_time_ymd(from, 1, 1);
            wanted.not_after = rcgen::date_time_ymd(until, 1, 1);
            let key = rcgen::KeyPair::generate().unwrap();
            std::fs::write(&file, wanted.self_signed(&key).unwrap().pem()).unwrap();
            assert_eq!(is_outdated(&file), outdated, "{from} to {until}");
        }
        assert!(!is_outdated(&dir.path().join("none.pem")));
    }
}
