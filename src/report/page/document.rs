//! The page around its sections.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::html::{Html, el};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const LIVE_SCRIPT: &str = include_str!("live.js");

#[derive(Debug, Clone, Default)]
pub struct Page {
    pub title: String,
    /// Below the title.
    pub lead: Html,
    pub sections: Vec<Section>,
    /// Whether it follows a run.
    pub live: Live,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Live {
    #[default]
    No,
    /// It listens to `events`, beside the page.
    Yes,
}

#[derive(Debug, Clone)]
pub struct Section {
    /// Its anchor.
    pub id: &'static str,
    pub title: String,
    pub content: Html,
}

impl Section {
    pub fn new(id: &'static str, title: impl Into<String>) -> Self {
        Self { id, title: title.into(), content: Html::default() }
    }

    pub fn add(&mut self, content: impl Into<Html>) {
        self.content.push(content);
    }
}

/// Names and values.
pub fn facts<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> Html {
    let entry =
        |(name, value): (&str, String)| el("div").child(el("dt").text(name)).child(el("dd").text(&value));
    el("dl").class("facts").children(entries.into_iter().map(entry)).into()
}

impl Page {
    /// The whole file. Equal pages give equal bytes.
    pub fn render(&self) -> String {
        let head = el("head")
            .child(el("meta").attr("charset", "utf-8"))
            .child(el("meta").attr("http-equiv", "Content-Security-Policy").attr("content", self.policy()))
            .child(el("meta").attr("name", "viewport").attr("content", "width=device-width, initial-scale=1"))
            .child(el("meta").attr("name", "color-scheme").attr("content", "light dark"))
            .child(el("meta").attr("name", "referrer").attr("content", "no-referrer"))
            // Or a browser asks the server for one.
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
        let section = |section: &Section| {
            let heading = format!("{}-heading", section.id);
            el("section")
                .attr("id", section.id)
                .attr("aria-labelledby", &heading)
                .child(el("h2").attr("id", &heading).text(&section.title))
                .child(section.content.clone())
        };
        let main = el("main").attr("id", "main").children(self.sections.iter().map(section));
        let body = el("body").child(header).child(nav).child(main);
        let html = Html::from(el("html").attr("lang", "en").child(head).child(body));
        format!("<!DOCTYPE html>\n{}\n", html.into_string())
    }

    /// Only our style sheet and scripts, by their digests; images only from inside the page; nothing else. A live
    /// page may listen to its own server.
    pub fn policy(&self) -> String {
        let scripts: Vec<String> = self.scripts().iter().map(|script| source_of(script)).collect();
        let connect = match self.live {
            Live::No => "",
            Live::Yes => "connect-src 'self'; ",
        };
        format!(
            "default-src 'none'; style-src {}; script-src {}; img-src data:; {connect}base-uri 'none'; form-action 'none'",
            source_of(STYLE),
            scripts.join(" "),
        )
    }

    fn scripts(&self) -> &'static [&'static str] {
        match self.live {
            Live::No => &[SCRIPT],
            Live::Yes => &[SCRIPT, LIVE_SCRIPT],
        }
    }
}

fn source_of(asset: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(asset)))
}

/// Shown by the script that makes it work.
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
        Page { title: title.to_owned(), lead: Html::text(title), sections: vec![section], live: Live::No }
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
        assert!(Page { live: Live::Yes, ..page("t") }.policy().contains("connect-src 'self'"));
    }

    #[test]
    fn no_asset_ends_its_own_element() {
        for asset in [STYLE, SCRIPT, LIVE_SCRIPT] {
            assert!(!asset.contains("</") && !asset.contains("<!--"), "it would end its element");
        }
    }

    proptest! {
        #[test]
        fn no_title_breaks_out(text in hostile()) {
            let html = page(&text).render();
            prop_assert_eq!(html.matches("<script").count(), 1);
            prop_assert_eq!(html.matches("<title").count(), 1);
            prop_assert_eq!(html.matches("<section").count(), 1);
        }
    }
}
