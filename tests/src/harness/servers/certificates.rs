//! Certificates for servers that speak TLS: an authority that nobody knows, and one of it for `localhost`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Files in PEM.
#[derive(Debug, Clone)]
pub struct Certificates {
    /// The certificate of the authority.
    pub authority: PathBuf,
    /// The server's, which is for the name `localhost` and no other.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
}

impl Certificates {
    /// Makes them in `folder`.
    pub fn make(folder: &Path) -> Self {
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        openssl(
            folder,
            &format!("req -x509 {key} -subj /CN=prs-test -keyout authority.key -out authority.pem"),
        );
        openssl(folder, &format!("req {key} -subj /CN=localhost -keyout server.key -out server.csr"));
        fs::write(folder.join("extensions"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
            .unwrap();
        openssl(
            folder,
            "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 \
             -extfile extensions -out server.pem",
        );
        let file = |name| folder.join(name);
        Self { authority: file("authority.pem"), certificate: file("server.pem"), key: file("server.key") }
    }

    /// What makes connections of a server inside this process ones with TLS.
    pub fn acceptor(&self) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_file(&self.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        // Named, because other crates may bring another one along.
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).unwrap()))
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| {
        panic!("openssl cannot be started: {error}; install it (`apt-get install openssl`)")
    });
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
