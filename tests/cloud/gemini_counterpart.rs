//! Sessions of the Gemini Live protocol with a service that others have written: CopilotKit's aimock, which `./dev gemini-test` starts with
//! what it says (`tools/aimock/fixtures.json`). It takes text and what comes of calls, but no audio; answers whatever it is sent; and ends
//! no turn as the protocol does.

use recado::cognition::models::Command;
use recado::cognition::models::gemini::session::Said;
use recado::cognition::models::gemini::{News, Told};
use recado_core::conversation::effect::{Cause, ToolStatus};
use recado_core::conversation::input::ModelEvent;
use recado_core::{OperationId, TurnId};

use super::gemini::Talker;

#[tokio::test]
#[ignore = "needs the service that ./dev gemini-test starts"]
async fn a_service_that_others_have_written_greets_calls_and_complains_and_what_it_says_unasked_is_not_heard() {
    let address = std::env::var("RECADO_AIMOCK").expect("RECADO_AIMOCK is not set: ./dev gemini-test sets it");
    let url = format!("ws://{address}/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent");
    let keys = |digits: &str| Cause::Digits { turn: TurnId(1), digits: digits.to_owned(), complete: true };
    let silence = Cause::Silence { quiet_ms: 8_000 };
    let tool = "name = 'order'\ndescription = 'Orders'\nurl = 'http://127.0.0.1/'\n\
                parameters = { type = 'object', properties = { number = { type = 'string' } } }";
    for calls in ["blocking", "non-blocking"] {
        let mut talker = Talker::with(&url, &format!("calls = '{calls}'"), &[toml::from_str(tool).unwrap()]);
        let greeting = talker.whole(1, Cause::Greeting).await;
        assert!(matches!(greeting.events[..], [ModelEvent::Complete { .. }]), "{calls}: {:?}", greeting.events);
        assert_eq!(greeting.bytes, 20 * 48, "20 ms at 24 kHz");

        let asks = talker.whole(2, keys("4729")).await;
        let called = asks.events.iter().find_map(|event| match event {
            ModelEvent::ToolCall { call, .. } => Some((call.call_id.clone(), call.arguments["number"].clone())),
            _ => None,
        });
        assert_eq!(called, Some(("call_aimock_1".to_owned(), "4729".into())), "{calls}");
        let output =
            Command::ToolOutput { call_id: "call_aimock_1".to_owned(), operation: Some(OperationId(1)), status: ToolStatus::Running };
        talker.link.handle.tell(Told::Command(output)).unwrap();
        // It answers each thing that it was told of the call, which the protocol forbids: that it is pending, and that it runs. An answer that
        // came after the next question could not be told from one to that.
        for _ in 0..if calls == "blocking" { 1 } else { 2 } {
            talker.until(|news| matches!(news, News::Said(Said::Trouble(says)) if says.contains("without being asked"))).await;
        }

        let refused = talker.whole(3, keys("1")).await;
        let why = "the service says: RESOURCE_EXHAUSTED: Too many requests.";
        assert!(matches!(&refused.events[..], [ModelEvent::Failed { reason, .. }] if reason == why), "{calls}: {:?}", refused.events);

        let last = talker.whole(4, silence.clone()).await;
        assert_eq!((last.bytes, last.events.len()), (20 * 48, 1), "{calls}: {:?}", last.events);
    }
}
