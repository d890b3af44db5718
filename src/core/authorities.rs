//! The certificate authorities that https connections trust.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

/// The environment variable that names a file of authorities, as for OpenSSL and curl.
pub const VARIABLE: &str = "SSL_CERT_FILE";

/// Why the file of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{VARIABLE} names {}, {problem}", path.display())]
pub struct BadAuthorities {
    path: PathBuf,
    problem: String,
}

/// Returns the TLS settings of https connections: the authorities of `SSL_CERT_FILE` are trusted if it is set, and
/// otherwise those that browsers trust, which are built in.
pub fn tls_config() -> Result<TlsConfig, BadAuthorities> {
    tls_config_of(std::env::var_os(VARIABLE).as_deref())
}

fn tls_config_of(file: Option<&OsStr>) -> Result<TlsConfig, BadAuthorities> {
    let authorities = match file.filter(|file| !file.is_empty()) {
        Some(file) => read(Path::new(file))?,
        None => RootCerts::WebPki,
    };
    Ok(TlsConfig::builder().root_certs(authorities).build())
}

fn read(path: &Path) -> Result<RootCerts, BadAuthorities> {
    let bad = |problem: String| BadAuthorities { path: path.to_owned(), problem };
    let content = fs::read(path).map_err(|error| bad(format!("which cannot be read: {error}")))?;
    let mut authorities = Vec::new();
    for item in parse_pem(&content) {
        match item {
            Ok(PemItem::Certificate(certificate)) => authorities.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(bad(format!("which is not a valid PEM file: {error}"))),
        }
    }
    if authorities.is_empty() {
        return Err(bad("which contains no certificate in PEM format".to_owned()));
    }
    Ok(RootCerts::new_with_certs(&authorities))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tls/authority.pem");

    #[test]
    fn the_authorities_of_the_variable_replace_those_that_are_built_in() {
        let roots = |file: Option<&str>| tls_config_of(file.map(OsStr::new)).unwrap().root_certs().clone();
        assert!(matches!(roots(Some(AUTHORITY)), RootCerts::Specific(given) if given.len() == 1));
        assert!(matches!(roots(None), RootCerts::WebPki));
        assert!(matches!(roots(Some("")), RootCerts::WebPki));
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let message = |file: &Path| tls_config_of(Some(file.as_os_str())).unwrap_err().to_string();
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("authorities.pem");
        assert!(message(&file).contains("SSL_CERT_FILE names") && message(&file).contains("cannot be read"));
        fs::write(&file, "no certificate").unwrap();
        assert!(
            message(&file).ends_with("which contains no certificate in PEM format"),
            "{}",
            message(&file)
        );
    }
}
