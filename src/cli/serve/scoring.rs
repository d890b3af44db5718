//! The thread that owns the model: it answers questions in the order in which they arrive, and scores the rows of all
//! waiting requests together.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::metrics::Metrics;
use super::question::{Refusal, row_to_explain, rows_to_predict};
use pipe_stages::judge::{ReadyModel, RowsToPredict};

/// Waiting requests are answered together up to this size of their bodies.
const BATCH_BYTES: usize = 256 << 10;

/// The body of a request, and where the answer goes.
pub(super) struct Question {
    pub kind: QuestionKind,
    pub body: Bytes,
    pub answer: oneshot::Sender<Answer>,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuestionKind {
    Predict,
    Explain,
}

/// A JSON text, or why there is none.
pub(super) type Answer = Result<String, Refusal>;

/// Answers questions until no one can ask any more.
pub(super) fn answer_all(mut model: ReadyModel, mut waiting: mpsc::Receiver<Question>, metrics: &Metrics) {
    while let Some(first) = waiting.blocking_recv() {
        let mut size = first.body.len();
        let mut batch = vec![first];
        while size < BATCH_BYTES
            && let Ok(next) = waiting.try_recv()
        {
            size += next.body.len();
            batch.push(next);
        }
        // A panic drops the batch: its requests are answered with an error, and the server goes on.
        let _ = catch_unwind(AssertUnwindSafe(|| answer_batch(&mut model, batch, metrics)));
    }
}

fn answer_batch(model: &mut ReadyModel, batch: Vec<Question>, metrics: &Metrics) {
    let (mut answers, mut requests) = (Vec::new(), Vec::new());
    // Nobody waits for the answer if the client has gone or its time is over.
    for Question { kind, body, answer } in batch.into_iter().filter(|question| !question.answer.is_closed()) {
        match kind {
            QuestionKind::Explain => drop(answer.send(explain(model, &body))),
            QuestionKind::Predict => match rows_to_predict(model, &body) {
                Ok(request) => {
                    answers.push(answer);
                    requests.push(request);
                }
                Err(refusal) => drop(answer.send(Err(refusal))),
            },
        }
    }
    for (answer, predicted) in answers.into_iter().zip(predict(model, &requests)) {
        let _ = answer.send(predicted);
    }
    metrics.scored(requests.iter().map(|request| request.rows.len()).sum());
}

/// Returns one answer for each request. If the rows cannot be scored together, those of every request are scored alone, so that a
/// request cannot fail because of another one.
fn predict(model: &mut ReadyModel, requests: &[RowsToPredict]) -> Vec<Answer> {
    let json = |rows: Vec<String>| format!("{{\"predictions\":[{}]}}", rows.join(","));
    match model.predict(requests) {
        Ok(predicted) => predicted.into_iter().map(|rows| Ok(json(rows))).collect(),
        Err(error) if requests.len() == 1 => vec![Err(undecided(&error))],
        Err(_) => requests.chunks(1).flat_map(|request| predict(model, request)).collect(),
    }
}

fn explain(model: &mut ReadyModel, body: &[u8]) -> Answer {
    let (row, label) = row_to_explain(model, body)?;
    let explanation = model.explain(&row, label).map_err(|error| undecided(&error))?;
    serde_json::to_string(&explanation).map_err(|error| undecided(&error.into()))
}

fn undecided(error: &anyhow::Error) -> Refusal {
    let message = format!("the model cannot decide about these rows: {error:#}");
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, message)
}
