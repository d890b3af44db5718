//! Figures as images inside the page. A browser neither runs scripts of an image nor lets it fetch anything.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::html::{Html, el};

/// An image on a page.
#[derive(Debug, Clone)]
pub struct Picture {
    pub name: String,
    kind: PictureKind,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PictureKind {
    Svg,
    Png,
}

impl Picture {
    /// Recognises a picture by its first bytes; `None` if a page cannot show it.
    pub fn sniff(name: &str, bytes: &[u8]) -> Option<Self> {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]);
        let start = start.trim_start_matches('\u{feff}').trim_start();
        let kind = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            PictureKind::Png
        } else if start.starts_with("<svg") || (start.starts_with("<?xml") && start.contains("<svg")) {
            PictureKind::Svg
        } else {
            return None;
        };
        Some(Self { name: name.to_owned(), kind, bytes: bytes.to_vec() })
    }

    /// Returns the picture with its caption.
    pub fn html(&self) -> Html {
        let media = match self.kind {
            PictureKind::Svg => "image/svg+xml",
            PictureKind::Png => "image/png",
        };
        let source = format!("data:{media};base64,{}", STANDARD.encode(&self.bytes));
        let title = self.title();
        let caption = title.as_deref().unwrap_or(&self.name);
        let figure = el("figure");
        let figure = if self.is_wide() { figure.class("wide") } else { figure };
        figure
            .child(el("img").attr("src", source).attr("alt", caption))
            .child(el("figcaption").text(caption))
            .into()
    }

    /// Returns whether the picture was made for the whole width of a page: an SVG file of at least five inches.
    fn is_wide(&self) -> bool {
        let start = String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(1024)]);
        let width = start.split_once(" width=\"").and_then(|(_, width)| width.split_once("pt\""));
        let points = width.and_then(|(width, _)| width.parse::<f64>().ok());
        self.kind == PictureKind::Svg && points.is_some_and(|points| points >= 5.0 * 72.0)
    }

    /// Returns the text of the first `title` in an SVG file.
    fn title(&self) -> Option<String> {
        if self.kind != PictureKind::Svg {
            return None;
        }
        let text = std::str::from_utf8(&self.bytes).ok()?;
        let (_, from) = text.split_once("<title")?;
        let (_, from) = from.split_once('>')?;
        let (title, _) = from.split_once("</title>")?;
        let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
            .into_iter()
            .fold(title.trim().to_owned(), |text, (from, to)| text.replace(from, to));
        (!plain.is_empty()).then_some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_svg_is_an_image_that_cannot_run_scripts() {
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"><title>F1 &amp; <!-- --></title><script>alert(1)</script></svg>";
        let html = Picture::sniff("f1.svg", svg.as_bytes()).unwrap().html().into_string();
        assert!(html.starts_with("<figure><img src=\"data:image/svg+xml;base64,"), "{html}");
        assert!(!html.contains("script") && html.contains("<figcaption>F1 &amp; &lt;!"), "{html}");
    }

    #[test]
    fn a_wide_figure_is_shown_wide() {
        let html = |width: &str| {
            let svg =
                format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"90pt\"></svg>");
            Picture::sniff("f1.svg", svg.as_bytes()).unwrap().html().into_string()
        };
        assert!(html("486pt").starts_with("<figure class=\"wide\">"));
        for narrow in ["237.6pt", "486", "100%"] {
            assert!(html(narrow).starts_with("<figure><img"), "{narrow}");
        }
    }

    #[test]
    fn other_files_are_not_recognised_as_pictures() {
        for text in ["", "a,b\n1,2\n", "<html><svg></svg></html>", "<?xml version=\"1.0\"?><a/>"] {
            assert!(Picture::sniff("x", text.as_bytes()).is_none(), "{text}");
        }
        assert!(Picture::sniff("x", b"\x89PNG\r\n\x1a\nrest").is_some());
    }
}
