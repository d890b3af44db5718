//! `pipe serve`: answers HTTP requests with a model that is loaded once.
//!
//! One thread does everything that concerns connections ([`server`], [`api`]). Another one owns the model and answers questions in
//! the order in which they arrive ([`scoring`]); it scores the rows of waiting requests together.

mod api;
mod metrics;
mod page;
mod question;
mod scoring;
mod server;
mod token;

use std::net::TcpListener;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::mpsc;

use super::args::ServeArgs;
use super::exit::{Exit, Failure, Outcome};
use super::predict::ModelPlace;
use super::print_text;
use super::project::Project;
use api::Api;
use metrics::Metrics;
use pipe_engine::store::TemporaryDirectory;
use pipe_ml::system::needs_libtorch;
use pipe_stages::judge::{ReadyModel, ReadySettings};
use token::Token;

/// How many requests may wait for the model.
const MOST_WAITING: usize = 256;

/// Runs `pipe serve` until a signal ends it.
pub(super) fn serve(project: &Project, args: &ServeArgs) -> Outcome {
    let token = Token::of(args)?;
    let scratch = TemporaryDirectory::new()?;
    let place = ModelPlace::find(project, &args.source, &scratch)?;
    let name = &args.source.model;
    if needs_libtorch(&place.model)? {
        return Err(Failure::bad_input(format!(
            "`{name}` has a network, which `pipe serve` cannot run: use `pipe predict`, or serve a model of `fit`, `fuse` or \
             `threshold` without `mlp` and `logistic`"
        )));
    }
    let listener = TcpListener::bind(args.listen).map_err(|error| {
        let hint = if args.listen.port() == 0 { "" } else { "; `--listen 0` takes any free port" };
        Failure::bad_input(format!("cannot listen on {}: {error}{hint}", args.listen))
    })?;
    let settings = ReadySettings {
        threads: args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        feature_base: args.feature_base,
        rule: place.stages.cut.clone(),
    };
    let model = ReadyModel::open(&place.model, &place.data, settings)?;

    let address = listener.local_addr()?;
    let url = format!("http://{address}/");
    let metrics = Arc::new(Metrics::new(name));
    let (questions, waiting) = mpsc::channel(MOST_WAITING);
    let api = Api {
        page: page::page(),
        labels: api::labels(name, &model),
        metrics: Arc::clone(&metrics),
        questions,
        loopback_port: address.ip().is_loopback().then_some(address.port()),
        token,
        verbose: project.is_verbose(),
    };
    std::thread::Builder::new()
        .name("scoring".to_owned())
        .spawn(move || scoring::answer_all(model, waiting, &metrics))?;
    let secret = api.token.secret().map(str::to_owned);
    if args.json {
        print_text(&format!("{}\n", json!({ "event": "serving", "url": url, "token": secret })))?;
    }
    project.status(&match (&secret, api.token.is_new()) {
        // The part behind `#` is not sent to the server: the page reads it.
        (Some(secret), true) => {
            format!("serving `{name}` at {url}#{secret}\ntoken: {secret}\nCtrl-C stops it")
        }
        _ => format!("serving `{name}` at {url}\nCtrl-C stops it"),
    });
    server::run(listener, Arc::new(api))?;
    project.status("stopped");
    Ok(Exit::Done)
}
