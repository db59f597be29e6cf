//! A service as the model of a call, without a call around it.

use std::time::Duration;

use recado::app::RealtimeModel;
use recado::cognition::models::{AudioFormat, Command, Model, OutputKind};
use recado_core::Time;
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, ModelEvent};

use super::service::{Conduct, Reply, Service};
use super::stage::{configured, end_of, greet, open};
use super::talker::{A, B};

/// The model of a box whose calls the service at `url` leads.
fn model(url: &str, more: &str) -> RealtimeModel {
    let settings = format!("[model]\nkind = 'realtime'\n{more}\n[cloud.realtime]\nurl = '{url}'\nmodel = 'speaks'\n");
    configured(&settings, |config| RealtimeModel::new(config).unwrap())
}

#[tokio::test]
async fn it_hears_and_speaks_in_the_services_format_and_is_told_its_task() {
    let service = Service::start(vec![Conduct::default()]).await;
    let model = model(&service.url(), "instructions = 'Cuente un chiste.'");
    let can = model.capabilities();
    assert_eq!(can.output, OutputKind::Audio(AudioFormat::Pcmu));
    assert!(can.hears_audio && can.cancel && can.truncate && !can.owns_turns && can.silence_after_ms.is_none());
    let mut session = open(&model);
    greet(&session, A);
    assert_eq!(end_of(&mut session, A).await, ModelEvent::Complete { response: A });
    let told = service.seen.sent_by_clients();
    assert_eq!(told[0]["session"]["instructions"], "Cuente un chiste.");
}

#[tokio::test]
async fn a_call_that_takes_nothing_holds_up_neither_what_the_model_is_told_nor_what_it_hears() {
    let service = Service::start(vec![Conduct { replies: [Reply::Long { confirms: true }].into(), ..Conduct::default() }]).await;
    let mut session = open(&model(&service.url(), ""));
    greet(&session, A);
    // Nobody takes what comes, and the service stops being read.
    service.seen.until_there_are(600).await;
    for to in [Acoustic::Suspected, Acoustic::Speaking] {
        session.handle.tell(Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(0), at: Time(0) })).unwrap();
    }
    session.handle.audio.as_ref().expect("it hears").push(&[1_000; 160]);
    service.seen.until(|events| events.iter().any(|event| event["type"] == "input_audio_buffer.append")).await;
    session.handle.tell(Command::CancelResponse { response: A }).unwrap();
    service.seen.until(|events| events.iter().any(|event| event["type"] == "response.cancel")).await;
    greet(&session, B);
    assert_eq!(end_of(&mut session, B).await, ModelEvent::Complete { response: B });
}

#[tokio::test]
async fn where_the_service_refuses_for_good_each_response_fails_at_once_and_the_session_goes_on() {
    let service = Service::start(vec![Conduct { answers: Some((401, None, "wrong key")), ..Conduct::default() }]).await;
    let mut session = open(&model(&service.url(), ""));
    for response in [A, B] {
        greet(&session, response);
        let ModelEvent::Failed { reason, .. } = end_of(&mut session, response).await else { panic!("nobody is there to answer") };
        assert!(reason.contains("refuses the key (401)"), "{reason}");
    }
    assert_eq!(service.seen.connections(), 0);
}

#[tokio::test]
async fn a_call_that_is_over_ends_its_session_also_in_the_middle_of_a_response() {
    let service = Service::start(vec![Conduct { replies: [Reply::Long { confirms: true }].into(), ..Conduct::default() }]).await;
    let mut session = open(&model(&service.url(), ""));
    greet(&session, A);
    service.seen.until_there_are(50).await;
    drop(session.handle);
    let ended = async { while session.outputs.recv().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("its outputs end within a minute");
}
