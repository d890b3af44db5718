//! Whether a request was sent to this machine by its own name, for servers that only this machine may use.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The port that addresses with `http://` leave out.
const HTTP_PORT: u16 = 80;

/// Returns whether an authority, the value of `Host` or what follows `http://` in `Origin`, is this machine at a port.
///
/// A page of another site cannot have such an authority: if its name was pointed at this machine (DNS rebinding), a browser
/// still sends that name. Loopback addresses are not names.
pub(super) fn is_loopback(authority: &str, port: u16) -> bool {
    let with_port = authority.strip_suffix(&format!(":{port}"));
    let host = with_port.or((port == HTTP_PORT).then_some(authority)).unwrap_or_default();
    let is_ipv4 = || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    let is_ipv6 = || {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let address = address.and_then(|address| address.parse::<Ipv6Addr>().ok());
        address.is_some_and(|address| address.to_canonical().is_loopback())
    };
    host.eq_ignore_ascii_case("localhost") || is_ipv4() || is_ipv6()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_and_localhost_are_this_machine() {
        for host in ["127.0.0.1", "127.0.0.2", "127.255.255.254", "localhost", "LOCALHOST", "[::1]"] {
            assert!(is_loopback(&format!("{host}:8000"), 8000), "{host}");
            assert!(!is_loopback(&format!("{host}:8001"), 8000), "{host}");
            assert!(!is_loopback(host, 8000), "{host}");
            assert!(is_loopback(host, 80) && is_loopback(&format!("{host}:80"), 80), "{host}");
            assert!(!is_loopback(&format!("{host}:8000"), 80), "{host}");
        }
    }

    #[test]
    fn names_and_addresses_of_others_are_not() {
        for host in [
            "",
            ":8000",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "127.1",
            "0.0.0.0",
            "192.168.0.1",
            "[::]",
            "::1",
            "[::1",
            "2130706433",
            "user@localhost",
        ] {
            assert!(!is_loopback(&format!("{host}:8000"), 8000), "{host}");
            assert!(!is_loopback(host, 80), "{host}");
        }
    }
}
