//! `pipe serve`: a model over HTTP decides like `pipe predict`, and refuses whatever it cannot answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{PipelineTest, worker_program};

/// A running server. It is killed at the end of a test that fails.
struct Served {
    child: Child,
    url: String,
    token: String,
}

impl Served {
    /// Starts a server on any free port.
    fn start(test: &PipelineTest, args: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", test, args)
    }

    fn start_at(address: &str, test: &PipelineTest, args: &[&str]) -> Self {
        let mut command = test.command(&[&["serve"], args, &["--listen", address, "--json"]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut said = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut said);
            panic!("it did not start: {said}")
        });
        assert_eq!(started["event"], "serving");
        let token = started["token"].as_str().unwrap_or_default().to_owned();
        Self { child, url: started["url"].as_str().unwrap().to_owned(), token }
    }

    fn port(&self) -> u16 {
        self.url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap()
    }

    /// Sends a request, and returns the status and the body.
    fn send(&self, method: &str, path: &str, token: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            self.port(),
            body.len()
        );
        // The server may refuse before it has read everything.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {answer:?}"));
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn post(&self, path: &str, body: &Value) -> (u16, String) {
        self.send("POST", path, &self.token, body.to_string().as_bytes())
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.send("GET", path, &self.token, b"")
    }

    /// Returns the rows that a request for predictions gives.
    #[track_caller]
    fn predictions(&self, body: &Value) -> Vec<Value> {
        let (status, answer) = self.post("/predict", body);
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["predictions"].as_array().unwrap().clone()
    }

    /// Checks that a request is refused with a status and a sentence, and that the server still answers.
    #[track_caller]
    fn refuses(&self, (status, answer): (u16, String), expected: u16, sentence: &str) {
        assert_eq!(status, expected, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["error"].as_str().unwrap().contains(sentence), "{answer}");
        assert_eq!(self.send("GET", "/healthz", "", b"").0, 200);
    }

    /// Asks the server to stop, and returns its exit code.
    fn stop(mut self) -> Option<i32> {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a project with a trained model of texts, exported to `model`.
fn project() -> PipelineTest {
    worker_program();
    let test = PipelineTest::empty();
    test.write("things.csv", crate::own_data::csv());
    test.typed("init --data things.csv").ok();
    test.edit("pipelines/things.yaml", "keep: { texts: true,", "keep: { id_column: key, texts: true,");
    test.typed("run pipelines/things.yaml").ok();
    test.typed("model export recipe[macro] model --training-texts").ok();
    test
}

/// Returns texts, some of them empty or with words that the model does not know.
fn texts(count: usize) -> Vec<String> {
    let words =
        ["cat", "dog", "oak", "rose", "slate", "granite", "huge", "tiny", "number7", "zebra", "Ünicode"];
    let text = |row: usize| {
        (0..row % 5).map(|at| words[(row * 7 + at * 3) % words.len()]).collect::<Vec<_>>().join(" ")
    };
    (0..count).map(text).collect()
}

/// Returns rows as they would be alone in a request.
fn unnumbered(rows: &[Value]) -> Vec<Value> {
    rows.iter().map(|row| row["labels"].clone()).collect()
}

#[test]
fn a_served_model_decides_like_predict_in_batches_of_any_size_and_at_the_same_time() {
    let test = project();
    let texts = texts(60);
    let lines: String = texts.iter().map(|text| format!("{}\n", json!({ "text": text }))).collect();
    test.write("new.jsonl", lines);
    let predicted = |top: &[&str]| -> Vec<Value> {
        let args = [&["predict", "recipe[macro]", "new.jsonl", "--text-column", "text"], top].concat();
        test.pipe(&args).ok().events()
    };
    let (expected, best) = (predicted(&[]), predicted(&["--top", "3"]));
    assert!(expected.iter().any(|row| !row["labels"].as_array().unwrap().is_empty()));

    for source in ["recipe[macro]", "model"] {
        let served = Served::start(&test, &[source, "--threads", "2"]);
        // All rows at once are the lines of `pipe predict`, numbers included.
        assert_eq!(served.predictions(&json!({ "texts": texts })), expected, "{source}");
        assert_eq!(served.predictions(&json!({ "texts": texts, "top": 3 })), best, "{source}");
        for size in [1, 2, 3, 7, 32] {
            let batches = texts.chunks(size).map(|texts| served.predictions(&json!({ "texts": texts })));
            let rows: Vec<Value> = batches.flat_map(|rows| unnumbered(&rows)).collect();
            assert_eq!(rows, unnumbered(&expected), "{source} in batches of {size}");
        }
        // Requests that wait together are scored together.
        std::thread::scope(|scope| {
            for client in 0..8 {
                let (served, texts, expected) = (&served, &texts, &expected);
                scope.spawn(move || {
                    for row in (client..texts.len()).step_by(8) {
                        let rows = served.predictions(&json!({ "text": texts[row] }));
                        assert_eq!(unnumbered(&rows), unnumbered(&expected[row..=row]), "row {row}");
                    }
                });
            }
        });
        let metrics = served.get("/metrics").1;
        assert!(
            metrics.contains("pipe_serve_request_seconds_count{path=\"/predict\",status=\"200\"}"),
            "{metrics}"
        );
        assert_eq!(served.stop(), Some(0));
    }
}

#[test]
fn a_served_explanation_is_that_of_explain_and_shows_neighbours_with_id_and_text() {
    let test = project();
    test.write("new.csv", "description\ncat dog huge\n");
    let explained = test.typed("explain model --row 0 --input new.csv --json").ok().json();
    let served = Served::start(&test, &["model"]);
    let (status, answer) = served.post("/explain", &json!({ "text": "cat dog huge" }));
    assert_eq!(status, 200, "{answer}");
    assert!(serde_json::from_str::<Value>(&answer).unwrap() == explained, "{answer}");
    let causes: Vec<&Value> = explained["labels"][0]["score_terms"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|term| term["evidence"]["causes"].as_array())
        .flatten()
        .filter(|cause| cause["what"]["kind"] == "training_row")
        .collect();
    assert!(!causes.is_empty());
    for cause in causes {
        let (id, text) = (cause["what"]["id"].as_str().unwrap(), cause["what"]["text"].as_str().unwrap());
        assert!(test.read("things.csv").contains(&format!("{id},{text},")), "{cause}");
    }
    test.typed("explain recipe[macro] --row 0 --input new.csv").ok().prints("`cat dog horse huge big number");

    // By name, by number, and with a typing error.
    let one = served.post("/explain", &json!({ "text": "cat", "label": "stone" })).1;
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!((one["labels"].as_array().unwrap().len(), &one["labels"][0]["name"]), (1, &json!("stone")));
    let number = one["labels"][0]["label"].clone();
    let same = served.post("/explain", &json!({ "text": "cat", "label": number })).1;
    assert_eq!(serde_json::from_str::<Value>(&same).unwrap(), one);
    let wrong = served.post("/explain", &json!({ "text": "cat", "label": "stnoe" }));
    served.refuses(wrong, 400, "did you mean `stone`?");

    test.typed("model export recipe[macro] things.csv/model").refuses("things.csv/model: ");
    // An export without texts says so.
    test.typed("model export recipe[macro] bare").ok();
    test.typed("explain bare --row 0 --input new.csv")
        .ok()
        .prints("note: training rows are shown by their numbers");
}

#[test]
fn a_request_that_cannot_be_answered_is_refused_with_a_sentence_and_the_server_goes_on() {
    let test = project();
    let served = Served::start(&test, &["model"]);
    let post = |body: &Value| served.post("/predict", body);
    served.refuses(
        post(&json!({ "texts": texts(10_000) })),
        413,
        "there are 10000 rows, but one request may have at most 1000",
    );
    served.refuses(post(&json!({ "texts": [] })), 400, "there are no rows to predict");
    served.refuses(post(&json!({})), 400, "give exactly one of `text`, `texts`, `row` and `rows`");
    served.refuses(post(&json!({ "text": "a", "texts": ["b"] })), 400, "give exactly one of");
    served.refuses(post(&json!({ "row": { "1": 2 } })), 400, "row 0: the model needs a text");
    served.refuses(post(&json!({ "text": "cat", "top": 0 })), 400, "`top` must be at least 1");
    served.refuses(post(&json!({ "text": 3 })), 400, "the body is wrong");
    let raw = |method: &str, path: &str, body: &[u8]| served.send(method, path, &served.token, body);
    served.refuses(
        raw("POST", "/predict", b"{\"text\": \"\xff\xfe\"}"),
        400,
        "the body is not UTF-8: byte 10",
    );
    served.refuses(raw("POST", "/predict", b"text=cat"), 400, "the body is not JSON");
    served.refuses(raw("POST", "/predict", &vec![b' '; 17 << 20]), 413, "the body is larger than 16 MiB");
    // A body that is announced but never sent.
    let mut stream = TcpStream::connect(("127.0.0.1", served.port())).unwrap();
    let (token, started) = (&served.token, Instant::now());
    let head = format!(
        "POST /predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 99999999999\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert!(started.elapsed() < Duration::from_secs(15), "it is not waited for");
    served.refuses(raw("GET", "/predict", b""), 405, "/predict needs the method POST");
    served.refuses(raw("POST", "/labels", b""), 405, "/labels needs the method GET");
    served.refuses(raw("GET", "/nothing", b""), 404, "/openapi.json");
    for token in ["", "wrong", &served.token[1..], &format!("{}0", served.token)] {
        for path in ["/labels", "/metrics"] {
            served.refuses(served.send("GET", path, token, b""), 401, "Authorization: Bearer");
        }
        served.refuses(
            served.send("POST", "/predict", token, b"{\"text\": \"cat\"}"),
            401,
            "Authorization: Bearer",
        );
    }
    for path in ["/", "/healthz", "/openapi.json"] {
        assert_eq!(served.send("GET", path, "", b"").0, 200, "{path} needs no token");
    }
    let labels: Value = serde_json::from_str(&served.get("/labels").1).unwrap();
    assert_eq!((&labels["model"], &labels["rows"]["kind"]), (&json!("model"), &json!("texts")));
    assert!(labels["labels"].as_array().unwrap().iter().any(|label| label["name"] == "animal"));

    let port = served.port().to_string();
    test.pipe(&["serve", "model", "--listen", &port])
        .refuses("in use")
        .says("`--listen 0` takes any free port");
    // A connection that waits for its next request does not delay the end.
    let _idle = TcpStream::connect(("127.0.0.1", served.port())).unwrap();
    let started = Instant::now();
    assert_eq!(served.stop(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(5));

    test.pipe(&["serve", "model", "--no-token", "--listen", "0.0.0.0:0"])
        .refuses("only for a loopback address");
    test.write("token", "short\n");
    test.pipe(&["serve", "model", "--token-file", "token"]).refuses("at least 16 printable ASCII characters");
    test.pipe(&["serve", "model", "--listen", "here"]).exits_with(2).says("write an address with a port");

    let open = Served::start(&test, &["model", "--no-token"]);
    assert_eq!(open.post("/predict", &json!({ "text": "cat" })).0, 200);
    let foreign = |header: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", open.port())).unwrap();
        stream
            .write_all(format!("GET /labels HTTP/1.1\r\n{header}Connection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let host = format!("Host: localhost:{}\r\n", open.port());
    assert!(foreign(&host).starts_with("HTTP/1.1 200"));
    assert!(foreign(&format!("{host}Origin: http://evil.example\r\n")).starts_with("HTTP/1.1 421"));
    assert!(foreign("Host: evil.example\r\n").starts_with("HTTP/1.1 421"));
    assert!(foreign(&format!("Host: evil.example:{}\r\n", open.port())).starts_with("HTTP/1.1 421"));
    drop(open);
    // Every address of the loopback network is this machine.
    let open = Served::start_at("127.0.0.2:0", &test, &["model", "--no-token"]);
    let address = format!("127.0.0.2:{}", open.port());
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = format!("Host: {address}\r\nOrigin: http://{address}\r\n");
    stream.write_all(format!("GET /labels HTTP/1.1\r\n{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_model_directory_with_one_flipped_bit_and_a_network_are_not_served() {
    let test = project();
    let files = test.files_below("model");
    for (path, bytes) in files.iter().filter(|(path, bytes)| !bytes.is_empty() && !path.ends_with("B3SUMS")) {
        let name = format!("model/{}", path.display());
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        test.write(&name, &damaged);
        test.pipe(&["serve", "model"]).refuses(&path.display().to_string());
        test.write(&name, bytes);
    }
    test.write("network.yaml", "extends: pipelines/things.yaml\nname: network\nstages:\n  net: { fit: { data: data, model: { kind: logistic, epochs: 1 } } }\n");
    test.typed("run network.yaml net").ok();
    test.typed("serve net -f network.yaml").refuses("has a network, which `pipe serve` cannot run");
}

#[test]
fn rows_of_numbers_are_served_like_those_of_a_file() {
    worker_program();
    let test = PipelineTest::empty();
    let rows: String = (0..90)
        .map(|row| {
            format!(
                "{},{} {}:0.5 {}:0.3333333 {}:1\n",
                row % 3,
                3 + row % 2,
                1 + row % 3,
                4 + row % 2,
                6 + row % 20
            )
        })
        .collect();
    test.write("counts.svm", &rows);
    test.typed("init --data counts.svm").ok();
    test.typed("run pipelines/counts.yaml").ok();
    let expected = test.typed("predict recipe[macro] counts.svm").ok().events();
    let served = Served::start(&test, &["recipe[macro]"]);
    let described: Value = serde_json::from_str(&served.get("/labels").1).unwrap();
    assert_eq!(
        (&described["rows"]["kind"], &described["rows"]["first_feature"]),
        (&json!("sparse"), &json!(1))
    );
    let row = |line: &str| -> Value {
        let pairs = line.split(' ').skip(1).map(|pair| pair.split_once(':').unwrap());
        // Numbers stay as they are written.
        let fields: Vec<String> = pairs.map(|(feature, value)| format!("\"{feature}\":{value}")).collect();
        serde_json::from_str(&format!("{{{}}}", fields.join(","))).unwrap()
    };
    let rows: Vec<Value> = rows.lines().map(row).collect();
    assert_eq!(served.predictions(&json!({ "rows": rows })), expected);
    assert_eq!(unnumbered(&served.predictions(&json!({ "row": rows[5] }))), unnumbered(&expected[5..6]));
    let refused = |row: Value| served.post("/predict", &json!({ "row": row }));
    served.refuses(refused(json!({ "0": 1 })), 400, "there is no feature 0: the features are 1 to");
    served.refuses(refused(json!([1, 2])), 400, "numbers of features with their values");
    served.refuses(
        refused(json!({ "x": 1 })),
        400,
        "row 0: there is no feature `x`: the features of the model have numbers",
    );
    served.refuses(refused(json!({ "1": 1e39 })), 400, "");
    let huge = served.post("/predict", &json!({ "row": { "1": 3e38, "2": 3e38 } }));
    assert!([200, 422].contains(&huge.0), "{huge:?}");
}

#[test]
fn features_with_names_are_served_by_name_and_labels_that_are_numbers_by_name_too() {
    worker_program();
    let test = PipelineTest::empty();
    test.write("rows.arff", crate::own_data::arff().replace("@attribute b {0,1}", "@attribute 0 {0,1}"));
    test.typed("init --data rows.arff").ok();
    test.typed("run pipelines/rows.yaml").ok();
    let expected = test.typed("predict recipe[macro] rows.arff").ok().events();
    let served = Served::start(&test, &["recipe[macro]"]);
    let described: Value = serde_json::from_str(&served.get("/labels").1).unwrap();
    let attributes = json!([
        { "name": "d" }, { "name": "c", "values": ["red", "green", "blue"] }, { "name": "large one", "values": ["no", "yes"] }
    ]);
    assert_eq!(described["rows"]["attributes"], attributes);
    let rows: Vec<Value> = test
        .read("rows.arff")
        .split("@data\n")
        .nth(1)
        .unwrap()
        .lines()
        .map(|line| {
            let values: Vec<&str> = line.split(',').collect();
            json!({ "c": values[2], "d": values[3].parse::<u32>().unwrap(), "large one": values[4] })
        })
        .collect();
    assert_eq!(served.predictions(&json!({ "rows": rows })), expected);
    let refused = |row: Value| served.post("/predict", &json!({ "row": row }));
    served.refuses(refused(json!({ "c": "pink" })), 400, "the attribute `c` has no value `pink`");
    served.refuses(refused(json!({ "large": "no" })), 400, "there is no feature `large`");
    // The label that is called `0` is the second one.
    for label in [json!(0), json!("0")] {
        let (_, answer) = served.post("/explain", &json!({ "row": rows[0], "label": label }));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["labels"][0]["label"], &answer["labels"][0]["name"]), (&json!(1), &json!("0")));
    }
    served.refuses(
        served.post("/explain", &json!({ "row": rows[0], "label": 1 })),
        400,
        "cannot be given by number",
    );
}
