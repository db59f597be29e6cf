//! How long a clause takes from its words to its audio, where espeak-ng is installed.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use recado::surface::speech::espeak::EspeakNg;
use recado::surface::speech::{Synthesiser, Utterance};
use recado_core::policy::Language;

fn speech(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a thread");
    let engine = EspeakNg::default();
    if let Err(error) = runtime.block_on(engine.version()) {
        return println!("espeak-ng is not measured: {error}");
    }
    let clause = Utterance::new("Ya he pedido la transferencia, le aviso en cuanto esté hecha.", Language::Es);
    criterion.bench_function("espeak-ng, a clause", |bencher| {
        bencher.iter(|| runtime.block_on(engine.synthesise(black_box(&clause))).expect("audio"));
    });
}

criterion_group!(benches, speech);
criterion_main!(benches);
