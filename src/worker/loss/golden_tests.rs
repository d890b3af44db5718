//! Tests of both implementations of the loss against golden vectors from PyTorch, and against finite differences for
//! the options that the golden vectors do not cover.

use serde_json::Value;
use tch::{Kind, Tensor};

use super::fused::{LossPass, ThresholdGradients, stride};
use super::real::Real;
use super::reference::{self, SignalTensors, ThresholdTensors};
use super::terms::{LossTerms, LossValue, ThresholdParameters, ThresholdTerms};
use pipe_golden::{assert_close, flat, matrix, read, vector};
use pipe_ml::config::loss::{LossConfig, Reduction};
use pipe_ml::config::preset::Preset;
use pipe_ml::config::threshold::{GlobalSignal, Squash, ThresholdConfig, Variant};
use pipe_ml::signal::batch::BatchSignals;
use pipe_ml::signal::propagate::propagate;
use pipe_ml::signal::sparse_rows::SparseRows;
use pipe_ml::signal::supply::{LocalSignalBatch, SignalBatch};

/// The inputs of one loss, in f64.
#[derive(Clone)]
struct LossCase {
    variant: Variant,
    threshold: ThresholdConfig,
    loss: LossConfig,
    leave_self_out: bool,
    positive_weights: Vec<f64>,
    idf: Vec<f64>,
    y: Vec<Vec<f64>>,
    /// Row-major.
    z: Vec<f64>,
    alpha: Vec<f64>,
    beta: Vec<f64>,
    bias: Vec<f64>,
    lambda: Vec<f64>,
    /// The salience of the labels for the rows, times their IDF.
    salience: Option<Vec<Vec<f64>>>,
    /// c(x) of the rows.
    density: Option<Vec<f64>>,
}

/// The loss and its gradients.
struct LossAnswer {
    value: LossValue,
    z: Vec<f64>,
    alpha: Vec<f64>,
    beta: Vec<f64>,
    bias: Vec<f64>,
    lambda: Vec<f64>,
}

const EPS: f64 = 1e-8;

impl LossCase {
    fn golden(inputs: &Value, case: &Value) -> Self {
        let released = case["mode"] == "released";
        let labels = vector(&inputs["alpha"]).len();
        let paper = Preset::Paper.method();
        Self {
            variant: match case["variant"].as_str().unwrap() {
                "adaptive" => Variant::Adaptive,
                "knn_only" => Variant::KnnOnly,
                "idf_only" => Variant::IdfOnly,
                _ => Variant::Static,
            },
            threshold: ThresholdConfig {
                global: if released { GlobalSignal::OwnLabels } else { GlobalSignal::Idf },
                squash: if released { Squash::Sigmoid } else { Squash::None },
                ..paper.threshold
            },
            loss: LossConfig {
                standardise: case["standardise"].as_bool().unwrap(),
                margin_weight: case["lambda_m"].as_f64().unwrap_or(0.1),
                margin: case["delta"].as_f64().unwrap_or(0.1),
                reduction: match case["reduction"].as_str().unwrap() {
                    "sum" => Reduction::Sum,
                    "mean" => Reduction::Mean,
                    _ => Reduction::SumLabelsMeanBatch,
                },
                ..paper.loss
            },
            leave_self_out: false,
            positive_weights: vec![case["pos_weight"].as_f64().unwrap(); labels],
            idf: vector(&inputs["IDF"]),
            y: matrix(&inputs["Y"]),
            z: flat(&case["z"]),
            alpha: vector(&inputs["alpha"]),
            beta: vector(&inputs["beta"]),
            bias: vector(&inputs["bias"]),
            lambda: vec![inputs["lam"].as_f64().unwrap()],
            salience: None,
            density: None,
        }
    }

    fn labels(&self) -> usize {
        self.alpha.len()
    }

    fn local(&self) -> SparseRows {
        propagate(&SparseRows::from_dense(&self.y), self.labels(), self.leave_self_out, EPS)
    }

    fn fused<T: Real>(&self) -> LossAnswer {
        let (rows, labels) = (self.y.len(), self.labels());
        let stride = stride(rows);
        let convert = |values: &[f64]| values.iter().map(|&value| T::of(value)).collect::<Vec<T>>();
        let others = SignalBatch {
            local: LocalSignalBatch::Predicted,
            salience: self.salience.as_deref().map(SparseRows::from_dense).unwrap_or_default(),
            density: self.density.clone().unwrap_or_default(),
        };
        let y = SparseRows::from_dense(&self.y);
        let signals = BatchSignals::with_signals(labels, &y, &self.local(), &others, EPS);
        let loss = LossTerms::new(&self.loss, &self.positive_weights);
        let thresholds = ThresholdTerms::new(self.variant, &self.threshold, &self.idf);
        let [alpha, beta, bias, lambda] =
            [&self.alpha, &self.beta, &self.bias, &self.lambda].map(|values| convert(values));
        let parameters = ThresholdParameters { alpha: &alpha, beta: &beta, bias: &bias, lambda: &lambda };
        let mut z = vec![T::ZERO; labels * stride];
        for (i, &value) in self.z.iter().enumerate() {
            z[i % labels * stride + i / labels] = T::of(value);
        }
        let mut g = z.clone();
        let mut gradients = ThresholdGradients::new(labels);
        let mut label_sums = vec![T::ZERO; labels];
        let pass = LossPass::new(&loss, &thresholds, parameters, &signals, rows);
        let value = pass.run(&z, &mut g, &mut gradients, &mut label_sums);
        let mut lambda_gradient = lambda.clone();
        pass.lambda_gradient(&gradients.lambda, &mut lambda_gradient);

        let back = |values: &[T]| values.iter().map(|value| value.to_f64()).collect::<Vec<_>>();
        let z: Vec<f64> = (0..rows * labels).map(|i| g[i % labels * stride + i / labels].to_f64()).collect();
        let columns: Vec<f64> = (0..labels).map(|l| (0..rows).map(|i| z[i * labels + l]).sum()).collect();
        assert_close("label sums", &back(&label_sums), &columns, 1e-4);
        LossAnswer {
            value,
            z,
            alpha: back(&gradients.alpha),
            beta: back(&gradients.beta),
            bias: back(&gradients.bias),
            lambda: back(&lambda_gradient),
        }
    }

    fn reference(&self, kind: Kind) -> LossAnswer {
        let (rows, labels) = (self.y.len() as i64, self.labels() as i64);
        let tensor = |values: &[f64], size: &[i64]| Tensor::from_slice(values).to_kind(kind).reshape(size);
        let leaf = |values: &[f64], size: &[i64]| tensor(values, size).set_requires_grad(true);
        let y = tensor(&self.y.concat(), &[rows, labels]);
        let z = leaf(&self.z, &[rows, labels]);
        let parameters = ThresholdTensors {
            alpha: leaf(&self.alpha, &[labels]),
            beta: leaf(&self.beta, &[labels]),
            bias: leaf(&self.bias, &[labels]),
            lambda: leaf(&self.lambda, &[self.lambda.len() as i64]),
        };
        let signals = SignalTensors {
            idf: tensor(&self.idf, &[labels]),
            own: Some(reference::own_label_share(&y, EPS).unwrap()),
            salience: self.salience.as_ref().map(|salience| tensor(&salience.concat(), &[rows, labels])),
            local: Some(reference::propagate(&y, self.leave_self_out, EPS).unwrap()),
            density: self.density.as_ref().map(|density| tensor(density, &[rows, 1])),
        };
        let theta = reference::thresholds(self.variant, &self.threshold, &parameters, &signals).unwrap();
        let weights = tensor(&self.positive_weights, &[labels]);
        let hat = reference::standardised(&z, &self.loss).unwrap();
        let loss = reference::loss(&hat, &theta, &y, &weights, &self.loss).unwrap();
        loss.total.backward();
        let value = LossValue {
            bce: loss.bce.double_value(&[]),
            margin: loss.margin.double_value(&[]),
            total: loss.total.double_value(&[]),
        };
        let gradient = |tensor: &Tensor| {
            let gradient = tensor.grad();
            let gradient = if gradient.defined() { gradient } else { tensor.zeros_like() };
            Vec::<f64>::try_from(gradient.reshape([-1]).to_kind(Kind::Double)).unwrap()
        };
        LossAnswer {
            value,
            z: gradient(&z),
            alpha: gradient(&parameters.alpha),
            beta: gradient(&parameters.beta),
            bias: gradient(&parameters.bias),
            lambda: gradient(&parameters.lambda),
        }
    }
}

fn check_golden(answer: &LossAnswer, case: &Value, name: &str, tolerance: f64) {
    let close = |what: &str, ours: &[f64], golden: &[f64]| {
        assert_close(&format!("{name}: {what}"), ours, golden, tolerance);
    };
    let one = |field: &str| [case[field].as_f64().unwrap()];
    close("bce", &[answer.value.bce], &one("bce"));
    close("margin", &[answer.value.margin], &one("margin"));
    close("total", &[answer.value.total], &one("total"));
    close("grad_z", &answer.z, &flat(&case["grad_z"]));
    close("grad_alpha", &answer.alpha, &vector(&case["grad_alpha"]));
    close("grad_beta", &answer.beta, &vector(&case["grad_beta"]));
    close("grad_bias", &answer.bias, &vector(&case["grad_bias"]));
    close("grad_lambda", &answer.lambda, &one("grad_lambda"));
}

fn all_golden_cases(check: impl Fn(&LossCase, &Value, &str)) {
    tch::set_num_threads(1);
    let golden = read("loss_cases");
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 68);
    for (number, case) in cases.iter().enumerate() {
        let field = |name: &str| case[name].to_string();
        let name = format!(
            "case {number} ({} {} standardise {} pos_weight {} {})",
            field("mode"),
            field("variant"),
            field("standardise"),
            field("pos_weight"),
            field("reduction")
        );
        check(&LossCase::golden(&golden["inputs"], case), case, &name);
    }
}

#[test]
fn the_fused_pass_matches_every_golden_case_in_f64() {
    all_golden_cases(|case, golden, name| check_golden(&case.fused::<f64>(), golden, name, 1e-10));
}

#[test]
fn the_fused_pass_matches_every_golden_case_in_f32() {
    all_golden_cases(|case, golden, name| check_golden(&case.fused::<f32>(), golden, name, 1e-5));
}

#[test]
fn the_libtorch_expression_matches_every_golden_case() {
    all_golden_cases(|case, golden, name| {
        check_golden(&case.reference(Kind::Double), golden, name, 1e-10);
        check_golden(&case.reference(Kind::Float), golden, name, 1e-5);
    });
}

#[test]
fn thresholds_and_decisions_match_every_golden_case() {
    all_golden_cases(|case, golden, name| {
        let (rows, labels) = (case.y.len() as i64, case.labels() as i64);
        let tensor = |values: &[f64]| Tensor::from_slice(values);
        let y = tensor(&case.y.concat()).reshape([rows, labels]);
        let parameters = ThresholdTensors {
            alpha: tensor(&case.alpha),
            beta: tensor(&case.beta),
            bias: tensor(&case.bias),
            lambda: tensor(&case.lambda),
        };
        let signals = SignalTensors {
            idf: tensor(&case.idf),
            own: Some(reference::own_label_share(&y, EPS).unwrap()),
            salience: None,
            density: None,
            local: Some(tensor(&case.local().to_dense(case.labels()).concat()).reshape([rows, labels])),
        };
        let theta = reference::thresholds(case.variant, &case.threshold, &parameters, &signals).unwrap();
        let theta = theta.expand([rows, labels], false);
        let z = reference::standardised(&tensor(&case.z).reshape([rows, labels]), &case.loss).unwrap();
        let values = |tensor: &Tensor| Vec::<f64>::try_from(tensor.reshape([-1])).unwrap();
        assert_close(&format!("{name}: theta"), &values(&theta), &flat(&golden["theta"]), 1e-10);
        let adjusted = values(&(z - theta));
        assert_close(&format!("{name}: adjusted"), &adjusted, &flat(&golden["adjusted"]), 1e-10);
        let decided: Vec<f64> = adjusted.iter().map(|&u| f64::from(u8::from(u > 0.0))).collect();
        assert_eq!(decided, flat(&golden["pred"]), "{name}");
    });
}

/// Returns a batch with the given logits and thresholds of zero.
fn with_zero_thresholds(
    z: Vec<Vec<f64>>,
    y: Vec<Vec<f64>>,
    pos_weight: f64,
    margin_weight: f64,
    delta: f64,
) -> LossCase {
    let labels = z[0].len();
    let paper = Preset::Paper.method();
    let loss = LossConfig { margin_weight, margin: delta, reduction: Reduction::Sum, ..paper.loss };
    LossCase {
        variant: Variant::Adaptive,
        threshold: paper.threshold,
        loss,
        leave_self_out: false,
        positive_weights: vec![pos_weight; labels],
        idf: vec![0.0; labels],
        y,
        z: z.concat(),
        alpha: vec![0.0; labels],
        beta: vec![0.0; labels],
        bias: vec![0.0; labels],
        lambda: vec![0.5],
        salience: None,
        density: None,
    }
}

#[test]
fn the_loss_of_extreme_logits_is_finite_and_correct() {
    for golden in read("edge_cases")["bce_extreme"].as_array().unwrap() {
        let pos_weight = golden["pos_weight"].as_f64().unwrap();
        let case = with_zero_thresholds(matrix(&golden["z"]), matrix(&golden["y"]), pos_weight, 0.0, 0.0);
        let sum: f64 = flat(&golden["bce_elem"]).iter().sum();
        for (answer, tolerance) in
            [(case.fused::<f64>(), 1e-10), (case.fused::<f32>(), 1e-5), (case.reference(Kind::Double), 1e-10)]
        {
            assert_close("bce", &[answer.value.bce], &[sum], tolerance);
            assert_close("grad_z", &answer.z, &flat(&golden["grad_z"]), tolerance);
        }
    }
}

#[test]
fn exactly_at_the_margin_the_gradient_is_that_of_pytorch() {
    for golden in read("edge_cases")["margin_ties"].as_array().unwrap() {
        let z = matrix(&golden["z"]);
        let y = vec![vec![golden["y"].as_f64().unwrap(); z[0].len()]];
        let with = with_zero_thresholds(z.clone(), y.clone(), 1.0, 1.0, golden["delta"].as_f64().unwrap());
        let without =
            LossCase { loss: LossConfig { margin_weight: 0.0, ..with.loss.clone() }, ..with.clone() };
        for (a, b) in [
            (with.fused::<f64>(), without.fused::<f64>()),
            (with.fused::<f32>(), without.fused::<f32>()),
            (with.reference(Kind::Double), without.reference(Kind::Double)),
        ] {
            let margin: Vec<f64> = a.z.iter().zip(&b.z).map(|(a, b)| a - b).collect();
            assert_close("grad_z", &margin, &flat(&golden["grad_z"]), 1e-5);
            let sum: f64 = flat(&golden["margin_elem"]).iter().sum();
            assert_close("margin", &[a.value.margin], &[sum], 1e-6);
        }
    }
}

#[test]
fn a_constant_row_standardises_to_zero_and_gets_finite_gradients() {
    let golden = read("edge_cases");
    let z = matrix(&golden["constant_row"]["z"]);
    let tensor = Tensor::from_slice(&z[0]).reshape([1, -1]);
    let standardising = LossConfig { standardise: true, ..Preset::Paper.method().loss };
    let hat = reference::standardised(&tensor, &standardising).unwrap();
    let hat = Vec::<f64>::try_from(hat.reshape([-1])).unwrap();
    assert_close("z_hat", &hat, &flat(&golden["constant_row"]["z_hat"]), 1e-12);

    let mut case = with_zero_thresholds(z, vec![vec![0.0, 1.0, 0.0, 0.0, 0.0]], 1.0, 0.1, 0.1);
    case.loss.standardise = true;
    let expected = 5.0 * 2f64.ln();
    for answer in [case.fused::<f64>(), case.fused::<f32>()] {
        assert_close("bce", &[answer.value.bce], &[expected], 1e-6);
        assert!(answer.z.iter().all(|gradient| gradient.is_finite()));
    }
}

/// Returns cases that the golden files do not cover: each option on its own, and all together.
fn cases_without_golden_values() -> Vec<(String, LossCase)> {
    let golden = read("loss_cases");
    let mut cases = Vec::new();
    for number in [0, 20, 40, 60] {
        let base = LossCase::golden(&golden["inputs"], &golden["cases"][number]);
        let labels = base.labels();
        let spread: Vec<f64> = (0..labels).map(|label| 0.1 + 0.09 * label as f64).collect();
        let weights: Vec<f64> = (0..labels).map(|label| 1.0 + label as f64).collect();
        let with = |per_label: bool, sigmoid: bool, leave_self_out: bool| {
            let mut case = base.clone();
            case.threshold.lambda_per_label = per_label;
            case.threshold.lambda_sigmoid = sigmoid;
            case.leave_self_out = leave_self_out;
            case.positive_weights = weights.clone();
            if per_label {
                case.lambda = spread.clone();
            }
            (format!("case {number}, {per_label} {sigmoid} {leave_self_out}"), case)
        };
        cases.push(with(true, false, false));
        cases.push(with(false, true, false));
        cases.push(with(false, false, true));
        cases.push(with(true, true, true));
        // Every second element has a salience, and a row without neighbours falls back entirely.
        let rows = base.y.len();
        let salience = |i: usize| if i.is_multiple_of(2) { 0.0 } else { 0.3 + (i as f64).sin() };
        let salience: Vec<Vec<f64>> =
            (0..rows).map(|row| (0..labels).map(|label| salience(row * labels + label)).collect()).collect();
        let density: Vec<f64> = (0..rows).map(|row| (row as f64 / 2.0).min(1.0)).collect();
        for (name, salient, falls_back) in
            [("salience", true, false), ("fallback", false, true), ("salience and fallback", true, true)]
        {
            for per_label in [false, true] {
                let (_, mut case) = with(per_label, true, true);
                if salient {
                    case.threshold.global = GlobalSignal::Salience;
                    case.salience = Some(salience.clone());
                }
                case.density = falls_back.then(|| density.clone());
                cases.push((format!("case {number}, {name}"), case));
            }
        }
    }
    cases
}

#[test]
fn gradients_without_golden_values_match_finite_differences() {
    for (name, case) in cases_without_golden_values() {
        let answer = case.fused::<f64>();
        let slope = |change: &dyn Fn(&mut LossCase, f64)| {
            let at = |step: f64| {
                let mut moved = case.clone();
                change(&mut moved, step);
                moved.fused::<f64>().value.total
            };
            (at(1e-5) - at(-1e-5)) / 2e-5
        };
        let close = |what: &str, ours: f64, slope: f64| {
            assert!((ours - slope).abs() <= 2e-6 * (1.0 + slope.abs()), "{name}: {what}: {ours} {slope}");
        };
        for i in 0..case.lambda.len() {
            close("lambda", answer.lambda[i], slope(&|case, step| case.lambda[i] += step));
        }
        for label in 0..case.labels() {
            close("alpha", answer.alpha[label], slope(&|case, step| case.alpha[label] += step));
            close("beta", answer.beta[label], slope(&|case, step| case.beta[label] += step));
            close("bias", answer.bias[label], slope(&|case, step| case.bias[label] += step));
        }
        for i in 0..case.z.len() {
            close("z", answer.z[i], slope(&|case, step| case.z[i] += step));
        }
    }
}

#[test]
fn both_implementations_agree_where_there_are_no_golden_values() {
    for (name, case) in cases_without_golden_values() {
        let (fused, reference) = (case.fused::<f64>(), case.reference(Kind::Double));
        let close = |what: &str, a: &[f64], b: &[f64]| assert_close(&format!("{name}: {what}"), a, b, 1e-10);
        close("total", &[fused.value.total], &[reference.value.total]);
        close("z", &fused.z, &reference.z);
        close("alpha", &fused.alpha, &reference.alpha);
        close("beta", &fused.beta, &reference.beta);
        close("bias", &fused.bias, &reference.bias);
        close("lambda", &fused.lambda, &reference.lambda);
    }
}

/// Returns a batch with many blocks of labels, whose rows do not fill whole cache lines.
fn large() -> LossCase {
    let golden = read("loss_cases");
    let small = LossCase::golden(&golden["inputs"], &golden["cases"][40]);
    let (rows, labels) = (37, 700);
    let wave = |i: usize, period: f64| (i as f64 * 0.7).sin() * period;
    let mut y = vec![vec![0.0; labels]; rows];
    for i in 0..rows * 4 {
        y[i % rows][i * i * 31 % labels] = 1.0;
    }
    LossCase {
        positive_weights: (0..labels).map(|label| 1.0 + (label % 7) as f64).collect(),
        idf: (0..labels).map(|label| (label as f64 + 1.5).ln()).collect(),
        y,
        z: (0..rows * labels).map(|i| wave(i, 3.0)).collect(),
        alpha: (0..labels).map(|label| wave(label, 1.0)).collect(),
        beta: (0..labels).map(|label| wave(label + 9, 1.0)).collect(),
        bias: (0..labels).map(|label| wave(label + 5, 0.5)).collect(),
        ..small
    }
}

#[test]
fn the_result_has_the_same_bits_for_any_number_of_threads() {
    let (case, mut with_density) = (large(), large());
    with_density.density = Some((0..37).map(|row| f64::from(row) / 36.0).collect());
    for case in [case, with_density] {
        bits_are_the_same(&case);
    }
}

fn bits_are_the_same(case: &LossCase) {
    let bits = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let answer = pool.install(|| case.fused::<f32>());
        let all = [answer.z, answer.alpha, answer.beta, answer.bias, answer.lambda].concat();
        (answer.value, all.iter().map(|value| value.to_bits()).collect::<Vec<_>>())
    };
    assert_eq!(bits(1), bits(3));
}

#[test]
fn many_blocks_and_padded_rows_agree_with_libtorch() {
    for (standardise, density) in [(false, None), (true, None), (false, Some(0.5)), (true, Some(0.9))] {
        let mut case = large();
        case.loss.standardise = standardise;
        case.density = density.map(|density| vec![density; 37]);
        let (fused, reference) = (case.fused::<f64>(), case.reference(Kind::Double));
        assert_close("total", &[fused.value.total], &[reference.value.total], 1e-10);
        assert_close("z", &fused.z, &reference.z, 1e-10);
        assert_close("alpha", &fused.alpha, &reference.alpha, 1e-10);
        assert_close("lambda", &fused.lambda, &reference.lambda, 1e-10);
        let single = case.fused::<f32>();
        assert_close("total in f32", &[single.value.total], &[reference.value.total], 1e-5);
        assert_close("z in f32", &single.z, &reference.z, 1e-5);
    }
}
