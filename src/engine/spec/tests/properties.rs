//! Properties that hold for every pipeline.

use proptest::prelude::*;

use crate::spec::index::StageIndex;
use crate::spec::pipeline::{InstanceId, Pipeline, UnlocatedFile};
use crate::spec::test_kinds::{Project, load_text};
use pipe_core::reference::StageRef;

/// Texts that an axis may have as values; difficult ones are more frequent.
fn axis_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}",
        "[0-9]{1,2}",
        r#"[,=\[\]"\\* ~.e0-9\n\t-]{0,4}"#,
        Just("null".to_owned()),
        Just("True".to_owned()),
        Just("1e-4".to_owned()),
        any::<String>(),
    ]
}

fn stage_ids() -> impl Strategy<Value = Vec<InstanceId>> {
    let names = prop::sample::subsequence(vec!["a", "b", "c"], 1..=3);
    let axes = names.prop_flat_map(|names| {
        let lists = prop::collection::vec(prop::collection::btree_set(axis_text(), 1..4), names.len());
        lists.prop_map(move |lists| names.iter().copied().zip(lists).collect::<Vec<_>>())
    });
    axes.prop_map(|axes| {
        let mut ids = vec![InstanceId { stage: "s".to_owned(), axes: Vec::new() }];
        for (axis, values) in axes {
            ids = ids
                .iter()
                .flat_map(|id| {
                    values.iter().map(|value| {
                        let mut id = id.clone();
                        id.axes.push((axis.to_owned(), value.clone()));
                        id
                    })
                })
                .collect();
        }
        ids
    })
}

/// Returns everything that other modules see of a pipeline.
fn fingerprint(pipeline: &Pipeline<UnlocatedFile>) -> String {
    format!("{pipeline:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_name_of_an_instance_parses_back_to_that_instance(ids in stage_ids()) {
        let index = StageIndex::new(&ids);
        for (position, id) in ids.iter().enumerate() {
            let reference: StageRef = id.to_string().parse().unwrap();
            prop_assert_eq!(index.find(&reference), Ok(vec![position]), "{}", id);
        }
    }

    #[test]
    fn expansion_does_not_depend_on_the_order_of_unrelated_keys(
        order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
        stage_order in Just(vec![0, 1, 2]).prop_shuffle(),
        seeds in prop::collection::btree_set(0u32..50, 1..5),
    ) {
        let seeds: Vec<_> = seeds.into_iter().collect();
        let stages = [
            "    train: { data: d, idf: i, seed: \"${matrix.seed}\", epochs: \"${vars.epochs}\" }\n",
            "    matrix: { seed: \"${vars.seeds}\", variant: [adaptive, static] }\n",
            "    retries: 1\n",
        ];
        let stage = |order: &[usize]| order.iter().map(|&at| stages[at]).collect::<String>();
        let text = |order: &[usize], stage_order: &[usize]| {
            let parts = [
                "name: p\n".to_owned(),
                format!("vars:\n  seeds: {seeds:?}\n  epochs: 3\n"),
                format!("stages:\n  d: {{ load: {{ dataset: x }} }}\n  i: {{ idf: {{ data: d }} }}\n  t:\n{}", stage(stage_order)),
                "outputs: [\"t[adaptive]\"]\n".to_owned(),
            ];
            order.iter().map(|&at| parts[at].as_str()).collect::<String>()
        };
        let load = |text: &str| load_text(text).map(|pipeline| fingerprint(&pipeline)).map_err(|d| d.to_string());
        let plain = load(&text(&[0, 1, 2, 3], &[0, 1, 2]));
        prop_assert!(plain.is_ok(), "{:?}", plain);
        prop_assert_eq!(&plain, &load(&text(&order, &stage_order)));
        prop_assert_eq!(&plain, &load(&text(&[0, 1, 2, 3], &[0, 1, 2])));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let files: &[(&str, &[u8])] = &[("p.yaml", &bytes)];
        if let Err(diagnostics) = (Project { files, set: &[], env: &[] }).load() {
            diagnostics.render(true);
        }
    }

    #[test]
    fn arbitrary_characters_of_yaml_never_panic(text in r#"[a-z0-9 \n\t:{}\[\],"'&*!|>%@`#~?$.=<-]{0,120}"#) {
        if let Err(diagnostics) = load_text(&text) {
            diagnostics.render(false);
        }
    }

    #[test]
    fn a_damaged_pipeline_never_panics(at in 0usize..700, cut in 0usize..5, insert in r#"[ \n:{}\[\],"'$a1*-]{0,4}"#) {
        let mut bytes = super::ABLATION.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, insert.bytes());
        let files: &[(&str, &[u8])] = &[("p.yaml", &bytes)];
        if let Err(diagnostics) = (Project { files, set: &[], env: &[] }).load() {
            diagnostics.render(false);
        }
    }
}
