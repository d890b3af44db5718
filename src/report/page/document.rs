//! The page around its sections: head, navigation, style and scripts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::html::{Html, el};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const LIVE_SCRIPT: &str = include_str!("live.js");
const ASK_SCRIPT: &str = include_str!("ask_model.js");
// Reports are stored results, so that their style sheet must not change for the sake of this page.
const ASK_STYLE: &str = include_str!("ask_model.css");

/// An HTML page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub title: String,
    /// The content below the title.
    pub lead: Html,
    pub sections: Vec<Section>,
    pub script: PageScript,
}

/// What a page does with the server that it comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PageScript {
    /// Nothing: it may be a file.
    #[default]
    Alone,
    /// It listens to `events`, and shows a run.
    FollowRun,
    /// It asks for predictions and explanations, and shows them.
    AskModel,
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
            .children(self.styles().iter().map(|&style| el("style").child(Html::asset(style))))
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

    /// Returns the content security policy. It allows only our style sheets and scripts, by their digests, and images
    /// inside the page. A page that needs its own server may connect to it.
    pub fn policy(&self) -> String {
        let sources =
            |assets: &[&str]| assets.iter().map(|asset| source_of(asset)).collect::<Vec<_>>().join(" ");
        let connect = match self.script {
            PageScript::Alone => "",
            PageScript::FollowRun | PageScript::AskModel => "connect-src 'self'; ",
        };
        format!(
            "default-src 'none'; style-src {}; script-src {}; img-src data:; {connect}base-uri 'none'; form-action 'none'",
            sources(self.styles()),
            sources(self.scripts()),
        )
    }

    fn styles(&self) -> &'static [&'static str] {
        match self.script {
            PageScript::Alone | PageScript::FollowRun => &[STYLE],
            PageScript::AskModel => &[STYLE, ASK_STYLE],
        }
    }

    fn scripts(&self) -> &'static [&'static str] {
        match self.script {
            PageScript::Alone => &[SCRIPT],
            PageScript::FollowRun => &[SCRIPT, LIVE_SCRIPT],
            PageScript::AskModel => &[SCRIPT, ASK_SCRIPT],
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
            script: PageScript::Alone,
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
        assert!(Page { script: PageScript::FollowRun, ..page("t") }.policy().contains("connect-src 'self'"));
    }

    #[test]
    fn assets_do_not_close_their_own_element() {
        for asset in [STYLE, ASK_STYLE, SCRIPT, LIVE_SCRIPT, ASK_SCRIPT] {
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
