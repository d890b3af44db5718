//! Parses an HTTP request and decides how to answer it.

use super::super::loopback::is_loopback;

/// The parts of a request's head that matter here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpRequest<'a> {
    method: &'a str,
    target: &'a str,
    host: &'a str,
}

/// The response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpResponse {
    Page,
    Events,
    /// An error, with this status line.
    Refused(&'static str),
}

impl<'a> HttpRequest<'a> {
    /// Parses the head of a request. Returns `None` if it is malformed or does not have exactly one host.
    pub(super) fn parse(head: &'a str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        let headers = lines.take_while(|line| !line.is_empty()).map(|line| line.split_once(':'));
        let headers: Vec<(&str, &str)> = headers.collect::<Option<_>>()?;
        let mut hosts = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        match (hosts.next(), hosts.next()) {
            (Some((_, host)), None) => Some(Self { method, target, host: host.trim() }),
            _ => None,
        }
    }

    /// Decides on the response. The host is checked first, against DNS rebinding: a foreign page whose name was
    /// pointed at this machine sends its own host.
    pub(super) fn response(&self, token: &str, port: u16) -> HttpResponse {
        if !is_loopback(self.host, port) {
            return HttpResponse::Refused("421 Misdirected Request");
        }
        if self.method != "GET" {
            return HttpResponse::Refused("405 Method Not Allowed");
        }
        let path = self.target.strip_prefix('/').and_then(|path| path.split_once('/'));
        match path {
            Some((given, "")) if is_equal(given, token) => HttpResponse::Page,
            Some((given, "events")) if is_equal(given, token) => HttpResponse::Events,
            _ => HttpResponse::Refused("404 Not Found"),
        }
    }
}

/// Compares in constant time.
pub(in crate::cli) fn is_equal(given: &str, token: &str) -> bool {
    let differing = given.bytes().zip(token.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
    given.len() == token.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn response(method: &str, target: &str, host: &str) -> HttpResponse {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n");
        HttpRequest::parse(&head).unwrap().response("c0ffee", 8080)
    }

    #[test]
    fn only_the_page_and_its_events_are_served_and_only_with_the_token() {
        assert_eq!(response("GET", "/c0ffee/", "127.0.0.1:8080"), HttpResponse::Page);
        assert_eq!(response("GET", "/c0ffee/events", "localhost:8080"), HttpResponse::Events);
        for target in
            ["/", "/c0ffe/", "/c0ffef/", "/c0ffee", "/c0ffee/../", "/c0ffee/x", "/c0ffee/?", "c0ffee/", "//"]
        {
            assert_eq!(
                response("GET", target, "127.0.0.1:8080"),
                HttpResponse::Refused("404 Not Found"),
                "{target}"
            );
        }
    }

    #[test]
    fn another_host_is_refused_before_anything_else() {
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:8080.evil.example",
            "",
        ] {
            assert_eq!(
                response("GET", "/c0ffee/", host),
                HttpResponse::Refused("421 Misdirected Request"),
                "{host}"
            );
        }
        assert_eq!(
            response("POST", "/c0ffee/", "localhost:8080"),
            HttpResponse::Refused("405 Method Not Allowed")
        );
    }

    #[test]
    fn a_malformed_request_is_refused() {
        for head in [
            "",
            "GET /\r\n\r\n",
            "GET / HTTP/2\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
            "GET / / HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert_eq!(HttpRequest::parse(head), None, "{head}");
        }
    }

    proptest! {
        #[test]
        fn no_other_path_is_served(target in "[ -~]{0,40}") {
            prop_assume!(!target.contains("c0ffee") && !target.contains(' ') && !target.is_empty());
            prop_assert_eq!(response("GET", &target, "127.0.0.1:8080"), HttpResponse::Refused("404 Not Found"));
        }
    }
}
