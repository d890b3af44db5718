//! A real browser, driven over WebDriver.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A browser that is closed when it is dropped.
pub(crate) struct Browser {
    driver: Child,
    session: String,
    _profile: tempfile::TempDir,
}

/// The field that holds the id of an element, by the WebDriver standard.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Browser {
    /// Starts a browser; `None` if none is installed, which fails the test with `PIPE_CI=1`.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(true)
    }

    pub(crate) fn start_without_scripts() -> Option<Self> {
        Self::start_with(false)
    }

    fn start_with(scripts: bool) -> Option<Self> {
        let found = ["chromium", "chromedriver"].iter().all(|program| in_path(program));
        if !found {
            assert!(
                std::env::var_os("PIPE_CI").is_none_or(|ci| ci != "1"),
                "chromium and chromedriver are needed: apt install chromium chromium-driver"
            );
            eprintln!("skipped: there is no chromium with its chromedriver here");
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            line.split("on port ").nth(1)?.trim_end_matches('.').parse::<u16>().ok().filter(|&port| port > 0)
        });
        // The driver stops if nobody reads its output.
        std::thread::spawn(move || lines.for_each(drop));
        let root = format!("http://127.0.0.1:{}/session", port.expect("chromedriver prints its port"));
        let mut arguments = vec![
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            // So that a click does not wait for scrolling.
            "--force-prefers-reduced-motion".to_owned(),
            "--window-size=1200,900".to_owned(),
        ];
        arguments.push(format!("--user-data-dir={}", profile.path().join("profile").display()));
        let javascript = if scripts { 1 } else { 2 };
        let opened = call(
            "POST",
            &root,
            &json!({ "capabilities": { "alwaysMatch": {
                "goog:loggingPrefs": { "browser": "ALL" },
                "goog:chromeOptions": {
                    "args": arguments,
                    "prefs": { "profile.managed_default_content_settings.javascript": javascript },
                },
            } } }),
        );
        let id = opened["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}"));
        Some(Self { driver, session: format!("{root}/{id}"), _profile: profile })
    }

    pub(crate) fn open(&self, url: &str) -> &Self {
        self.post("url", &json!({ "url": url }));
        self
    }

    pub(crate) fn open_file(&self, path: &Path) -> &Self {
        self.open(&format!("file://{}", path.display()))
    }

    /// Runs a script and returns its value.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    pub(crate) fn click(&self, selector: &str) -> &Self {
        let element = self.find(selector);
        self.post(&format!("element/{element}/click"), &json!({}));
        self
    }

    pub(crate) fn type_into(&self, selector: &str, text: &str) -> &Self {
        let element = self.find(selector);
        self.post(&format!("element/{element}/value"), &json!({ "text": text }));
        self
    }

    pub(crate) fn text(&self, selector: &str) -> String {
        let element = self.find(selector);
        let text = call("GET", &format!("{}/element/{element}/text", self.session), &Value::Null);
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a script's value is true.
    #[track_caller]
    pub(crate) fn wait_for(&self, script: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.run(script) != Value::Bool(true) {
            assert!(
                Instant::now() < deadline,
                "this did not become true: {script}\n{}",
                self.run("return document.body.innerText")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the messages in the browser's log since the last call.
    pub(crate) fn log(&self) -> Vec<String> {
        let messages = self.post("se/log", &json!({ "type": "browser" }));
        let entries = messages.as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    #[track_caller]
    fn find(&self, selector: &str) -> String {
        let found = self.post("element", &json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("{selector}: {found}")).to_owned()
    }

    #[track_caller]
    fn post(&self, what: &str, body: &Value) -> Value {
        call("POST", &format!("{}/{what}", self.session), body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = ureq::delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[track_caller]
fn call(method: &str, url: &str, body: &Value) -> Value {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let answer = match method {
        "GET" => agent.get(url).call(),
        _ => agent.post(url).header("content-type", "application/json").send(body.to_string()),
    };
    let mut answer = answer.unwrap_or_else(|error| panic!("{url}: {error}"));
    let text = answer.body_mut().read_to_string().unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let value = answer["value"].clone();
    assert!(value.get("error").is_none(), "{method} {url}: {}", value["message"]);
    value
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
