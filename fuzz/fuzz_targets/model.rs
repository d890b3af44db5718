//! Any bytes as `model.json` of a composite model, which must be consistent or refused. The parts need libtorch; their
//! matrices are covered by the target `artifact`.

#![no_main]

use pipe_ml::composite::Composite;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let temp = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(temp.path().join("model.json"), bytes).expect("a temporary file");
    let Ok(model) = Composite::load(temp.path()) else { return };
    let _ = model.label_names(temp.path());
    if model.labels > 1000 {
        return;
    }
    let scores = vec![0.25; model.labels];
    if let Some(cuts) = &model.cuts {
        let _ = cuts.predict_row(&scores);
        let _ = (0..model.labels).map(|label| cuts.cut(label)).count();
    }
    if let Some(fusion) = &model.fusion {
        let _ = (0..model.labels).map(|label| fusion.score(label as u32, [0.5, 0.25])).count();
    }
});
