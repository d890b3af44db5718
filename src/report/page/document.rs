//! The page around its sections: head, navigation, style and scripts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::html::{Html, el};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const LIVE_SCRIPT: &str = include_str!("live.js");

/// An HTML page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub title: String,
    /// The content below the title.
    pub lead: Html,
    pub sections: Vec<Section>,
    /// Whether the page follows a run.
    pub live: LiveUpdates,
}

/// Whether a page follows a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LiveUpdates {
    #[default]
    No,
    /// The page listens to `events` of its own server.
    Yes,
}

/// A section of a page.
#[derive(Debug, Clone)]
pub struct Section {
    /// The anchor for links.
    pub id: &'static str,
    pub title: String,
    pub content: Html,
    /// Whether the section is closed until the reader opens it.
    pub folded: bool,
}

impl Section {
    /// Creates an empty section.
    pub fn new(id: &'static str, title: impl Into<String>) -> Self {
        Self { id, title: title.into(), content: Html::default(), folded: false }
    }

    /// Creates an empty section that is closed at first.
    pub fn folded(id: &'static str, title: impl Into<String>) -> Self {
        Self { folded: true, ..Self::new(id, title) }
    }

    /// Appends content.
    pub fn add(&mut self, content: impl Into<Html>) {
        self.content.push(content);
    }
}

/// Returns a list of names and values.
pub fn facts<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> Html {
    let entry =
        |(name, value): (&str, String)| el("div").child(el("dt").text(name)).child(el("dd").text(&value));
    el("dl").class("facts").children(entries.into_iter().map(entry)).into()
}

impl Page {
    /// Returns the whole file. Equal pages give equal bytes.
    pub fn render(&self) -> String {
        let head = el("head")
            .child(el("meta").attr("charset", "utf-8"))
            .child(el("meta").attr("http-equiv", "Content-Security-Policy").attr("content", self.policy()))
            .child(el("meta").attr("name", "viewport").attr("content", "width=device-width, initial-scale=1"))
            .child(el("meta").attr("name", "color-scheme").attr("content", "light dark"))
            .child(el("meta").attr("name", "referrer").attr("content", "no-referrer"))
            // Without it, a browser asks the server for an icon.
            .child(el("link").attr("rel", "icon").attr("href", "data:,"))
            .child(el("title").text(&self.title))
            .child(el("style").child(Html::asset(STYLE)))
            .children(self.scripts().iter().map(|&script| el("script").child(Html::asset(script))));
        let links = self.sections.iter().map(|section| {
            el("li").child(el("a").attr("href", format!("#{}", section.id)).text(&section.title))
        });
        let header = el("header")
            .child(el("a").class("skip").attr("href", "#main").text("Skip to the content"))
            .child(theme_switch())
            .child(el("h1").text(&self.title))
            .child(el("div").class("lead").child(self.lead.clone()));
        let nav = el("nav").attr("aria-label", "Sections").child(el("ul").children(links));
        let section_html = |section: &Section| {
            let heading = format!("{}-heading", section.id);
            let fold = el("details").class("fold");
            let fold = if section.folded { fold } else { fold.flag("open") };
            let title = el("summary").child(el("h2").attr("id", &heading).text(&section.title));
            el("section")
                .attr("id", section.id)
                .attr("aria-labelledby", &heading)
                .child(fold.child(title).child(section.content.clone()))
        };
        let main = el("main").attr("id", "main").children(self.sections.iter().map(section_html));
        let body = el("body").child(header).child(nav).child(main);
        let html = Html::from(el("html").attr("lang", "en").child(head).child(body));
        format!("<!DOCTYPE html>\n{}\n", html.into_string())
    }

    /// Returns the content security policy. It allows only our style sheet and scripts, by their digests, and images
    /// inside the page. A live page may also listen to its own server.
    pub fn policy(&self) -> String {
        let scripts: Vec<String> = self.scripts().iter().map(|script| source_of(script)).collect();
        let connect = match self.live {
            LiveUpdates::No => "",
            LiveUpdates::Yes => "connect-src 'self'; ",
        };
        format!(
            "default-src 'none'; style-src {}; script-src {}; img-src data:; {connect}base-uri 'none'; form-action 'none'",
            source_of(STYLE),
            scripts.join(" "),
        )
    }

    fn scripts(&self) -> &'static [&'static str] {
        match self.live {
            LiveUpdates::No => &[SCRIPT],
            LiveUpdates::Yes => &[SCRIPT, LIVE_SCRIPT],
        }
    }
}

/// Returns the digest of an asset as the policy names it.
fn source_of(asset: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(asset)))
}

/// Returns the choice of a theme. It is hidden until the script that makes it work shows it.
fn theme_switch() -> Html {
    let choice = |(value, word): (&'static str, &str)| {
        let input = el("input").attr("type", "radio").attr("name", "theme").attr("value", value);
        el("label").child(input).child(el("span").text(word))
    };
    el("fieldset")
        .class("theme js-only")
        .child(el("legend").text("Theme"))
        .children([("auto", "Auto"), ("light", "Light"), ("dark", "Dark")].map(choice))
        .into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::html::tests::hostile;
    use super::*;

    fn page(title: &str) -> Page {
        let mut section = Section::new("results", title);
        section.add(facts([("name", title.to_owned())]));
        Page {
            title: title.to_owned(),
            lead: Html::text(title),
            sections: vec![section],
            live: LiveUpdates::No,
        }
    }

    #[test]
    fn the_page_fetches_nothing_and_runs_only_its_own_script() {
        let html = page("t").render();
        assert!(html.contains("default-src &#39;none&#39;") && !html.contains("unsafe"), "{html}");
        let outside = html.replace("http://www.w3.org/2000/svg", "");
        for forbidden in ["http://", "https://", "src=\"/", "@import", "url("] {
            assert!(!outside.contains(forbidden), "{forbidden}");
        }
        assert_eq!(html.matches("<script>").count(), 1);
        assert!(!page("t").policy().contains("connect-src"));
        assert!(Page { live: LiveUpdates::Yes, ..page("t") }.policy().contains("connect-src 'self'"));
    }

    #[test]
    fn assets_do_not_close_their_own_element() {
        for asset in [STYLE, SCRIPT, LIVE_SCRIPT] {
            assert!(!asset.contains("</") && !asset.contains("<!--"), "it would close its element");
        }
    }

    proptest! {
        #[test]
        fn titles_cannot_break_out_of_their_element(text in hostile()) {
            let html = page(&text).render();
            prop_assert_eq!(html.matches("<script").count(), 1);
            prop_assert_eq!(html.matches("<title").count(), 1);
            prop_assert_eq!(html.matches("<section").count(), 1);
        }
    }
}
