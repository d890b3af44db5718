//! Which requests there are, who may send them, and how they are answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::super::loopback::is_loopback;
use super::super::print_status;
use super::metrics::Metrics;
use super::page::ServedPage;
use super::question::Refusal;
use super::scoring::{Question, QuestionKind};
use super::token::Token;
use pipe_ml::data::row_encoder::RowContent;
use pipe_stages::judge::ReadyModel;

/// The largest body of a request.
const LARGEST_BODY: usize = 16 << 20;
/// How long the body of a request may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a request may wait for the answer of the model.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The description of this interface for other programs.
const OPENAPI: &str = include_str!("openapi.json");

/// Everything that is needed to respond to a request.
pub(super) struct Api {
    pub page: ServedPage,
    /// The response to `GET /labels`.
    pub labels: String,
    pub metrics: Arc<Metrics>,
    pub questions: mpsc::Sender<Question>,
    pub token: Token,
    /// The port, if the server listens on a loopback address.
    pub loopback_port: Option<u16>,
    /// Whether every request is reported.
    pub verbose: bool,
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Page,
    Health,
    OpenApi,
    Labels,
    Metrics,
    Question(QuestionKind),
}

impl Resource {
    fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/" => Self::Page,
            "/healthz" => Self::Health,
            "/openapi.json" => Self::OpenApi,
            "/labels" => Self::Labels,
            "/metrics" => Self::Metrics,
            "/predict" => Self::Question(QuestionKind::Predict),
            "/explain" => Self::Question(QuestionKind::Explain),
            _ => return None,
        })
    }

    /// Returns the path, as metrics show it.
    fn path(self) -> &'static str {
        match self {
            Self::Page => "/",
            Self::Health => "/healthz",
            Self::OpenApi => "/openapi.json",
            Self::Labels => "/labels",
            Self::Metrics => "/metrics",
            Self::Question(QuestionKind::Predict) => "/predict",
            Self::Question(QuestionKind::Explain) => "/explain",
        }
    }

    /// Returns whether it says nothing about the model, so that it needs no token.
    fn is_public(self) -> bool {
        matches!(self, Self::Page | Self::Health | Self::OpenApi)
    }
}

type HttpResponse = Response<Full<Bytes>>;

impl Api {
    /// Responds to a request, and counts it.
    pub(super) async fn respond(&self, request: Request<Incoming>) -> HttpResponse {
        let started = Instant::now();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let resource = Resource::at(uri.path());
        let response = match self.answer(resource, request).await {
            Ok(response) => response,
            Err(refusal) => refused(&refusal),
        };
        let (path, took) = (resource.map_or("other", Resource::path), started.elapsed());
        self.metrics.responded(path, response.status().as_u16(), took);
        if self.verbose {
            let status = response.status().as_u16();
            print_status(&format!("{method} {} {status} {:.1} ms", uri.path(), took.as_secs_f64() * 1e3));
        }
        response
    }

    async fn answer(
        &self,
        resource: Option<Resource>,
        request: Request<Incoming>,
    ) -> Result<HttpResponse, Refusal> {
        self.check_sender(request.headers())?;
        let resource = resource.ok_or_else(|| {
            Refusal::new(
                StatusCode::NOT_FOUND,
                "there is nothing here; /openapi.json describes what there is",
            )
        })?;
        if !resource.is_public() {
            let given = request.headers().get(header::AUTHORIZATION);
            if !self.token.accepts(given.and_then(|value| value.to_str().ok())) {
                let message = "the token is missing or wrong: send `Authorization: Bearer TOKEN`";
                return Err(Refusal::new(StatusCode::UNAUTHORIZED, message));
            }
        }
        let expected = if matches!(resource, Resource::Question(_)) { Method::POST } else { Method::GET };
        let method = request.method();
        if *method != expected && !(expected == Method::GET && *method == Method::HEAD) {
            let message = format!("{} needs the method {expected}", resource.path());
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        Ok(match resource {
            Resource::Page => {
                let mut response = ok("text/html; charset=utf-8", self.page.html.clone());
                response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, self.page.policy.clone());
                response
            }
            Resource::Health => json_response("{\"status\":\"ok\"}"),
            Resource::OpenApi => json_response(OPENAPI),
            Resource::Labels => json_response(self.labels.clone()),
            Resource::Metrics => {
                let waiting = self.questions.max_capacity() - self.questions.capacity();
                ok("text/plain; version=0.0.4; charset=utf-8", self.metrics.text(waiting))
            }
            Resource::Question(kind) => json_response(self.ask(kind, request.into_body()).await?),
        })
    }

    /// Without a token, refuses requests that a page of another site makes a browser send: those have another origin, or, if the
    /// name of the site was pointed at this machine, another host.
    fn check_sender(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let (None, Some(port)) = (self.token.secret(), self.loopback_port) else { return Ok(()) };
        let is_ours = |authority: &str| is_loopback(authority, port);
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
        let right_host = text(header::HOST).is_some_and(is_ours);
        let right_origin =
            text(header::ORIGIN).is_none_or(|origin| origin.strip_prefix("http://").is_some_and(is_ours));
        if right_host && right_origin {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this server answers requests to loopback addresses, such as 127.0.0.1, and to localhost only",
        ))
    }

    /// Asks the model.
    async fn ask(&self, kind: QuestionKind, body: Incoming) -> Result<String, Refusal> {
        let body = read_body(body).await?;
        let (answer, answered) = oneshot::channel();
        let busy = |message: &str| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message);
        self.questions.try_send(Question { kind, body, answer }).map_err(|error| match error {
            TrySendError::Full(_) => busy("too many requests are waiting: try again in a second"),
            TrySendError::Closed(_) => busy("the model has stopped: restart the server"),
        })?;
        match timeout(ANSWER_TIMEOUT, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                let message = "the model failed on these rows or on rows that were scored with them";
                Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message))
            }
            Err(_) => {
                let seconds = ANSWER_TIMEOUT.as_secs();
                Err(busy(&format!("there was no answer within {seconds} seconds: send fewer rows at a time")))
            }
        }
    }
}

async fn read_body(body: Incoming) -> Result<Bytes, Refusal> {
    let too_large = || {
        let message = format!("the body is larger than {} MiB", LARGEST_BODY >> 20);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    // The length that the head announces. Such a body is not waited for.
    if body.size_hint().lower() > LARGEST_BODY as u64 {
        return Err(too_large());
    }
    match timeout(BODY_TIMEOUT, Limited::new(body, LARGEST_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, format!("the body is not complete: {error}")))
        }
        Err(_) => {
            let message = format!("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs());
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

/// Returns the response to `GET /labels`.
pub(super) fn labels(name: &str, model: &ReadyModel) -> String {
    let names = model.label_names();
    let label = |number: usize| match names {
        Some(names) => json!({ "label": number, "name": names[number] }),
        None => json!({ "label": number }),
    };
    let features = model.feature_numbers();
    let rows = match model.content() {
        RowContent::Texts => json!({ "kind": "texts" }),
        RowContent::Sparse => {
            let mut rows =
                json!({ "kind": "sparse", "first_feature": features.start, "features": features.len() });
            if let Some(known) = model.attributes() {
                let attribute = |(name, values): (&str, Option<&[String]>)| match values {
                    Some(values) => json!({ "name": name, "values": values }),
                    None => json!({ "name": name }),
                };
                rows["attributes"] = known.attributes().map(attribute).collect();
            }
            rows
        }
        RowContent::Dense => json!({ "kind": "dense", "features": features.len() }),
    };
    let labels: Vec<Value> = (0..model.label_count()).map(label).collect();
    json!({ "model": name, "rows": rows, "labels": labels }).to_string()
}

fn refused(refusal: &Refusal) -> HttpResponse {
    let mut response = json_response(json!({ "error": refusal.message }).to_string());
    *response.status_mut() = refusal.status;
    let extra = match refusal.status {
        StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
        StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, "1")),
        _ => None,
    };
    if let Some((name, value)) = extra {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn json_response(text: impl Into<Bytes>) -> HttpResponse {
    ok("application/json", text)
}

fn ok(media: &'static str, body: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(Full::new(body.into()));
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, media),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
