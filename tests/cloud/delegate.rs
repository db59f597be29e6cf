//! A tool that is a larger model, with the parts of a real box: the ledger, the store on disk, the executor, and services on loopback.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, mpsc as blocking};

use recado::cognition::tools::{AttemptFuture, InquiryFuture, Sent, Slot, ToolPort, delegates, http_tools};
use recado::config::Tool;
use recado::demo::{Caller, patiently};
use recado_core::ledger::{AttemptOutcome, DeliveryState, Dispatch, Executed, Input, Inquiry, InquiryOutcome, OperationState};
use recado_core::policy::Language;
use recado_core::{IntentKey, OperationId};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::http_service::{Conduct, End, HttpService, Received, chat};
use super::llmock::{Llmock, REFUSAL};
use super::scene::{Scene, Setup};
use super::stage::{ACCEPTED, Stage, hears_to_the_end, speaks, speech, spoken, states};
use super::validator::{self, Tap};

#[tokio::test]
async fn a_question_is_accepted_and_its_progress_and_its_answer_are_told() {
    let answer = "Yes, it is covered. See **clause 4**, in the [contract](https://example.com/4). You pay [50]% of it.";
    for api in ["chat-completions", "responses"] {
        let events = if api == "responses" { responses(answer, &[]) } else { chat(answer, &[]) };
        let service = HttpService::start(Vec::new(), vec![Conduct::events(&events)]).await;
        let more = format!("api = '{api}'\ntokens_max = 512\ntemperature = 0.5\ninstructions = 'About {{{{ arguments.topic }}}}.'");
        let mut scene = Scene::new(&setup(&[expert(&service, &more)])).await;
        let operation = scene.asks("expert", json!({ "question": "Is hail covered?", "topic": "cars" }));
        scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
        assert_eq!(scene.updates.first().map(String::as_str), Some("It writes: Yes, it is covered."), "{api}: with its first sentence");
        assert_eq!(scene.tells().concat(), "Yes, it is covered. See clause 4, in the contract. You pay [50]% of it.", "{api}");
        let [asked] = &service.seen.asked()[..] else { panic!("{api}: it is asked once") };
        let request = asked.json();
        assert_eq!(asked.path, if api == "responses" { "/v1/responses" } else { "/v1/chat/completions" });
        if api == "responses" {
            assert_eq!((&request["store"], &request["instructions"]), (&json!(false), &json!("About cars.")));
            assert_eq!(request["input"][0]["content"], "Is hail covered?");
        } else {
            assert_eq!(request["messages"][0]["content"], "About cars.");
            assert_eq!(asked.messages()[0]["content"], "Is hail covered?");
        }
        assert!(request.get("tools").is_none());
        valid(api, [&request]);
    }
}

/// The model calls a tool, and its service then has no room. The next attempt makes the call again, its arguments in another order.
#[tokio::test]
async fn a_tool_of_its_own_has_its_effect_once_though_the_attempt_is_repeated() {
    for api in ["chat-completions", "responses"] {
        let (written, again) = (r#"{"car":"1234 ABC","year":2026}"#, r#"{ "year": 2026, "car": "1234 ABC" }"#);
        let says = |text: &str, calls: &[(&str, &str)]| {
            Conduct::events(&if api == "responses" { responses(text, calls) } else { chat(text, calls) })
        };
        let no_room = Conduct::json(429, &json!({ "error": { "message": "no room" } })).with("retry-after: 40");
        let answers = Mutex::new(
            [says("I'll look.", &[("contract", written)]), no_room, says("", &[("contract", again)]), says("It is covered.", &[])]
                .into_iter(),
        );
        let effects = Mutex::new(BTreeMap::<String, u32>::new());
        let service = HttpService::start_with(move |request| {
            if request.path != "/contract" {
                return answers.lock().unwrap().next().expect("it is not asked more often");
            }
            *effects.lock().unwrap().entry(key_of(request)).or_default() += 1;
            Conduct::json(200, &json!({ "clause": 4, "effects": effects.lock().unwrap().len() }))
        })
        .await;
        let tools = [expert(&service, &format!("api = '{api}'\ntools = ['contract']")), contract(&service)];
        let mut scene = Scene::new(&setup(&tools)).await;
        let operation = scene.asks("expert", json!({ "question": "Is hail covered?" }));
        scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
        assert_eq!(scene.tells(), ["It is covered."], "what it said before it used a tool is no answer");
        let (used, asked): (Vec<Received>, Vec<Received>) =
            service.seen.requests().into_iter().partition(|request| request.path == "/contract");
        assert_eq!((used.len(), asked.len()), (2, 4), "{api}");
        assert_eq!(key_of(&used[0]), key_of(&used[1]), "the same call has the same key: its effect is there once");
        let (first, second) = (used[0].json(), used[1].json());
        assert_eq!((&first["attempt"], &second["attempt"]), (&json!(1), &json!(2)));
        assert_eq!((&first["operation_id"], &first["arguments"]), (&second["operation_id"], &second["arguments"]));
        assert_ne!(first["operation_id"], json!(operation), "nobody can answer for the whole");
        assert!(first.get("callback").is_none());
        let told = asked[1].json().to_string();
        assert!(told.contains(r#"{\"clause\":4,\"effects\":1}"#) && told.contains("I'll look."), "{told}");
        valid(api, asked.iter().map(Received::json).collect::<Vec<_>>().iter());
    }
}

#[tokio::test]
async fn what_has_used_no_tool_is_cancelled_by_giving_it_up() {
    let stream = Conduct::events(&chat("Let me think. ", &[]));
    let thinks = Conduct { body: stream.body[..stream.body.len() / 2].to_vec(), ..stream }.ends(End::Silence);
    let service = HttpService::start(Vec::new(), vec![thinks]).await;
    let mut scene = Scene::new(&setup(&[expert(&service, "tools = ['contract']"), contract(&service)])).await;
    let operation = scene.asks("expert", json!({ "question": "Is hail covered?" }));
    service.seen.until(|seen| seen.asked().len() == 1).await;
    scene.wants_it_cancelled("expert");
    scene.until(|scene| scene.state(operation) == OperationState::Cancelled).await;
    service.seen.until(|seen| seen.left() == 1).await;
    assert_eq!(scene.tells(), ["I've cancelled what you asked for."]);
    assert_eq!(service.seen.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_has_used_a_tool_runs_on_and_is_told_as_too_late() {
    let (go_on, gate) = blocking::channel();
    let (gate, asked) = (Mutex::new(gate), Mutex::new(0));
    let service = HttpService::start_with(move |request| {
        if request.path == "/contract" {
            return Conduct::json(200, &json!({ "clause": 4 }));
        }
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        if *asked == 1 {
            return Conduct::events(&chat("", &[("contract", r#"{"car":"1"}"#)]));
        }
        gate.lock().unwrap().recv().unwrap();
        Conduct::says("It is covered.")
    })
    .await;
    let mut scene = Scene::new(&setup(&[expert(&service, "tools = ['contract']"), contract(&service)])).await;
    let operation = scene.asks("expert", json!({ "question": "Is hail covered?" }));
    service.seen.until(|seen| seen.asked().iter().any(|request| request.path == "/contract")).await;
    scene.wants_it_cancelled("expert");
    scene.until(|scene| scene.cancels_answered == 1).await;
    assert_eq!(scene.state(operation), OperationState::Cancelling, "nobody says that it is cancelled");
    go_on.send(()).unwrap();
    scene.until(|scene| scene.state(operation) == OperationState::TooLate).await;
}

#[tokio::test]
async fn what_was_cut_off_by_a_restart_is_asked_again_and_its_answer_told() {
    let silence = Conduct::says("").after(3_600_000);
    let service = HttpService::start(Vec::new(), vec![silence, Conduct::says("It is covered.")]).await;
    let mut scene = Scene::new(&setup(&[expert(&service, "")])).await;
    let operation = scene.asks("expert", json!({ "question": "Is hail covered?" }));
    service.seen.until(|seen| seen.asked().len() == 1).await;
    let mut scene = scene.restarts(&setup(&[expert(&service, "")])).await;
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    assert_eq!(service.seen.asked().len(), 2);
}

/// The real binary, a telephone over real SIP and RTP, a cascade that leads the call, and a larger model that looks something up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_hears_what_a_larger_model_has_found_out_once() {
    if !speaks() {
        return;
    }
    let service = HttpService::start_with(|request| match String::from_utf8_lossy(&request.body) {
        _ if request.path == "/contract" => Conduct::json(200, &json!({ "clause": 4 })),
        _ if request.transcribes() => Conduct::wrote("Is hail covered?"),
        told if told.contains("\"model\":\"large\"") && told.contains("clause") => Conduct::says("Hail is covered by **clause four**."),
        told if told.contains("\"model\":\"large\"") => Conduct::events(&chat("", &[("contract", r#"{"car":"1"}"#)])),
        told if told.contains("Greet the caller") => Conduct::says("Good morning. What can I do for you?"),
        told if told.contains("expert_was_asked") => Conduct::says("Anything else?"),
        _ => Conduct::events(&chat("", &[("expert", r#"{"question":"expert_was_asked"}"#)])),
    })
    .await;
    let address = service.address;
    let tools = format!(
        "[[tools]]\nname = 'expert'\nsay_accepted.en = '{ACCEPTED}'\nsay_done.en = '{{{{ result.answer }}}}'\n\
         [tools.delegate]\nurl = 'http://{address}/v1'\nmodel = 'large'\nquestion = 'question'\ntools = ['contract']\n\
         [tools.parameters]\ntype = 'object'\nproperties.question = {{ type = 'string' }}\n\
         [[tools]]\nname = 'contract'\nurl = 'http://{address}/contract'\nidempotent = true\n"
    );
    let stage = Stage::with_model(&service.settings("", ""), &tools).await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    caller.line.say(&speech("interruption"));
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
    let (_, ear) = caller.hang_up().await.unwrap();
    for words in [ACCEPTED, "Hail is covered by clause four."] {
        assert_eq!(ear.find(&spoken(words).await).len(), 1, "{words}");
    }
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
    let requests = service.seen.requests();
    assert_eq!(requests.iter().filter(|request| request.path == "/contract").count(), 1);
}

/// What comes of one attempt, by what the service does.
#[tokio::test]
async fn each_fault_of_the_service_is_what_it_is() {
    let call = |arguments: &str| Conduct::events(&chat("", &[("contract", arguments)]));
    let error = |status, message: &str| Conduct::json(status, &json!({ "error": { "message": message } }));
    let whole = Conduct::says("It is covered.");
    let half = Conduct { body: whole.body[..whole.body.len() / 2].to_vec(), ..whole.clone() };
    let long = Conduct::says(&"It is covered, as I have said before. ".repeat(4_000));
    let ok = |answer: &str| AttemptOutcome::Succeeded(json!({ "answer": answer }));
    let failed = |error: &str, executed, retryable, retry_after_ms| AttemptOutcome::Failed {
        error: error.to_owned(),
        executed,
        retryable,
        retry_after_ms,
    };
    let (no, maybe) = (Executed::No, Executed::Maybe);
    let mends = ": look at the key, its credit, the url and the model in the tool's [tools.delegate]";
    for (what, answers, expected, requests) in [
        (
            "a key that is refused",
            vec![error(401, "no s3cr3t-key")],
            failed(&format!("the service refuses the key (401): no ***{mends}"), no, false, None),
            1,
        ),
        (
            "no such model",
            vec![error(404, "no")],
            failed(&format!("the service knows no such address or model (404): no{mends}"), no, false, None),
            1,
        ),
        ("a request that is refused", vec![error(400, "no")], failed("the service answers 400: no", no, false, None), 1),
        ("overload, and then room", vec![error(503, "full"), whole.clone()], ok("It is covered."), 2),
        (
            "a long wait that is asked for",
            vec![error(429, "full").with("retry-after: 40")],
            failed("the service takes no more requests for now (429): full", no, true, Some(40_000)),
            1,
        ),
        ("a stream that is cut, and then not", vec![half.clone().ends(End::Cut), whole.clone()], ok("It is covered."), 2),
        ("a stream without its end", vec![half, whole.clone()], ok("It is covered."), 2),
        ("silence, and then not", vec![Conduct::says("").ends(End::NoHead), whole.clone()], ok("It is covered."), 2),
        ("not a word, and then some", vec![Conduct::says("**"), whole.clone()], ok("It is covered."), 2),
        ("an answer that is too long", vec![long], failed("the answer is longer than 65536 bytes", no, false, None), 1),
        ("arguments that it corrects", vec![call(r#"{"cra":1}"#), call(r#"{"car":"1"}"#), whole.clone()], ok("It is covered."), 4),
        ("a tool that is not there", vec![Conduct::events(&chat("", &[("order", "{}")])), whole.clone()], ok("It is covered."), 2),
        ("no end", vec![call(r#"{"car":"1"}"#)], failed("the model had no answer after 3 rounds", maybe, false, None), 5),
        (
            "a fault after a tool was used",
            vec![call(r#"{"car":"1"}"#), error(400, "no")],
            failed("the service answers 400: no", maybe, false, None),
            3,
        ),
    ] {
        let answers = Mutex::new(std::collections::VecDeque::from(answers));
        let service = HttpService::start_with(move |request| {
            if request.path == "/contract" {
                return Conduct::json(200, &json!({ "clause": 4 }));
            }
            let mut answers = answers.lock().unwrap();
            if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() }
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, "s3cr3t-key").unwrap();
        let more = format!("tools = ['contract']\nrounds_max = 3\nkey_file = '{}'", key.display());
        let port = port(&[expert(&service, &more), contract(&service)], &[]);
        assert_eq!(port.attempt(dispatch(), Sent::default()).await, expected, "{what}");
        let asked = service.seen.requests();
        assert_eq!(asked.len(), requests, "{what}: {asked:?}");
        if what == "arguments that it corrects" {
            let told = asked[1].json().to_string();
            assert!(told.contains("car") && told.contains("the arguments of `contract` are not what it takes"), "{told}");
        }
        if what == "no end" {
            let told = asked[4].json().to_string();
            assert!(told.contains("Answer now with what you know"), "{told}");
        }
    }
}

#[tokio::test]
async fn where_nobody_can_be_reached_nothing_has_left_the_box() {
    let closed = HttpService::closed();
    let address = closed.local_addr().unwrap();
    for url in [format!("http://{address}/v1"), "http://nowhere.invalid/v1".to_owned()] {
        let port = port(&[tool(&format!("name = 'expert'\nidempotent = true\n[delegate]\nurl = '{url}'\nmodel = 'large'"))], &[]);
        let outcome = port.attempt(dispatch(), Sent::default()).await;
        assert!(matches!(outcome, AttemptOutcome::Unreachable { .. }), "{url}: {outcome:?}");
    }
}

#[tokio::test]
async fn an_attempt_that_was_ended_uses_no_tool() {
    let service = HttpService::start(Vec::new(), vec![Conduct::events(&chat("", &[("contract", r#"{"car":"1"}"#)]))]).await;
    let sent = Sent::default();
    assert_eq!(sent.end(), Executed::No);
    let port = port(&[expert(&service, "tools = ['contract']"), contract(&service)], &[]);
    let outcome = port.attempt(dispatch(), sent).await;
    assert!(matches!(&outcome, AttemptOutcome::Failed { executed: Executed::No, .. }), "{outcome:?}");
    assert_eq!(service.seen.requests().len(), 1);
}

/// A tool that takes what it is asked under a name of its own.
struct Desk {
    /// What it is asked, in order.
    seen: Mutex<Vec<String>>,
    answers: Mutex<Vec<InquiryOutcome>>,
}

impl ToolPort for Desk {
    fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture {
        assert!(sent.mark());
        self.seen.lock().unwrap().push(format!("takes {}", dispatch.operation));
        Box::pin(async { AttemptOutcome::Taken { handle: "ticket 5".to_owned() } })
    }

    fn inquire(&self, inquiry: Inquiry) -> InquiryFuture {
        let Inquiry { request, operation, handle, .. } = inquiry;
        self.seen.lock().unwrap().push(format!("{request}: {operation} {}", handle.unwrap_or_default()));
        let answer = self.answers.lock().unwrap().remove(0);
        Box::pin(async { answer })
    }
}

#[tokio::test]
async fn what_a_tool_of_its_own_has_taken_is_asked_for() {
    let call = Conduct::events(&chat("", &[("contract", r#"{"car":"1"}"#)]));
    let service = HttpService::start(Vec::new(), vec![call, Conduct::says("It is covered.")]).await;
    let unanswered = InquiryOutcome::Unanswered { error: "busy".to_owned(), retryable: true, retry_after_ms: None };
    let running = InquiryOutcome::Running { again_ms: Some(1) };
    let done = InquiryOutcome::Succeeded(json!({ "clause": 4 }));
    let desk = Arc::new(Desk { seen: Mutex::default(), answers: Mutex::new(vec![running, unanswered, done]) });
    let port = port(&[expert(&service, "tools = ['contract']"), contract(&service)], &[("contract", desk.clone())]);
    assert_eq!(port.attempt(dispatch(), Sent::default()).await, AttemptOutcome::Succeeded(json!({ "answer": "It is covered." })));
    let seen = desk.seen.lock().unwrap().clone();
    let operation = seen[0].strip_prefix("takes ").unwrap();
    assert_eq!(seen[1..], [1, 2, 3].map(|request| format!("{request}: {operation} ticket 5")));
    assert!(service.seen.asked()[1].json().to_string().contains(r#"{\"clause\":4}"#));
}

#[tokio::test]
async fn llmock_says_that_a_larger_model_is_asked_as_it_should_be() {
    let Some(llmock) = Llmock::start().await else { return };
    for api in ["chat-completions", "responses"] {
        let settings = format!(
            "name = 'expert'\nidempotent = true\n[delegate]\nurl = '{}/v1'\nmodel = 'gpt-4o'\napi = '{api}'\n\
             connect_timeout_ms = 500\nanswer_timeout_ms = 800\nstall_timeout_ms = 800",
            llmock.url()
        );
        let port = port(&[tool(&settings)], &[]);
        for (what, behaviors) in Llmock::behaviors("It is covered by clause four of your contract.") {
            llmock.behaves(what, &behaviors).await;
            let outcome = port.attempt(dispatch(), Sent::default()).await;
            if what == REFUSAL {
                assert!(matches!(&outcome, AttemptOutcome::Failed { executed: Executed::No, retryable: false, .. }), "{api}: {outcome:?}");
            } else {
                let answer = json!({ "answer": "It is covered by clause four of your contract." });
                assert_eq!(outcome, AttemptOutcome::Succeeded(answer), "{api}: {what}");
            }
        }
    }
    llmock.passes().await;
}

/// A tool, as a `[[tools]]` table writes it.
fn tool(text: &str) -> Tool {
    toml::from_str(text).unwrap()
}

/// The model that is asked; `more` are further settings of `[tools.delegate]`.
fn expert(service: &HttpService, more: &str) -> Tool {
    tool(&format!(
        "name = 'expert'\nidempotent = true\ntimeout_ms = 60000\nprogress = 'say'\nretry = {{ backoff_ms = 1, backoff_ms_max = 5 }}\n\
         say_done.en = '{{{{ result.answer }}}}'\nsay_progress.en = 'It writes: {{{{ progress.text }}}}'\n\
         [delegate]\nurl = 'http://{}/v1'\nmodel = 'large'\nquestion = 'question'\n{more}",
        service.address
    ))
}

/// What it may use.
fn contract(service: &HttpService) -> Tool {
    tool(&format!(
        "name = 'contract'\nidempotent = true\nurl = 'http://{}/contract'\n[parameters]\ntype = 'object'\nrequired = ['car']\n\
         properties.car = {{ type = 'string' }}\nproperties.year = {{ type = 'integer' }}",
        service.address
    ))
}

/// The expert among `tools`, which are carried out over HTTP but for `others`.
fn port(tools: &[Tool], others: &[(&str, Arc<dyn ToolPort>)]) -> Arc<dyn ToolPort> {
    slots(tools, others, None)["expert"].port.clone()
}

fn slots(tools: &[Tool], others: &[(&str, Arc<dyn ToolPort>)], reports: Option<&mpsc::Sender<Input>>) -> BTreeMap<String, Slot> {
    // Already installed by another test: the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut own = http_tools(tools, None, None).unwrap();
    for (name, port) in others {
        own.insert((*name).to_owned(), Slot { port: port.clone(), concurrency: NonZeroUsize::MIN });
    }
    delegates(tools, Language::En, &own, reports).unwrap()
}

fn dispatch() -> Dispatch {
    let arguments = json!({ "question": "Is hail covered?" });
    Dispatch {
        operation: OperationId(7),
        attempt: 1,
        tool: "expert".to_owned(),
        arguments,
        intent_key: IntentKey("ana|expert|1".to_owned()),
    }
}

fn key_of(request: &Received) -> String {
    request.head.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).expect("a key").to_owned()
}

/// What was sent is what the vendor's types say.
fn valid<'a>(api: &str, requests: impl IntoIterator<Item = &'a Value>) {
    let side = if api == "responses" { "responses-request" } else { "chat-request" };
    let lines = requests.into_iter().map(|request| json!({ "side": side, "event": request }).to_string()).collect();
    validator::check(&[Tap::of_lines(lines)]);
}

/// The events of an answer over `responses`, its words in pieces.
fn responses(text: &str, calls: &[(&str, &str)]) -> Vec<Value> {
    let mut events = vec![json!({ "type": "response.created", "response": { "id": "resp_1", "status": "in_progress" } })];
    for piece in text.split_inclusive(' ') {
        events.push(json!({ "type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": piece }));
    }
    for (place, (name, arguments)) in (1..).zip(calls) {
        let item = json!({ "type": "function_call", "id": "f", "call_id": "the_same", "name": name, "arguments": arguments });
        events.push(json!({ "type": "response.output_item.done", "output_index": place, "item": item }));
    }
    let usage = json!({ "input_tokens": 100, "output_tokens": 20, "total_tokens": 120 });
    events
        .push(json!({ "type": "response.completed", "response": { "id": "resp_1", "status": "completed", "output": [], "usage": usage } }));
    events
}

/// A box with these tools, and a caller.
fn setup(tools: &[Tool]) -> Setup {
    Setup { ports: |config, _, reports| slots(&config.tools, &[], Some(reports)), ..Setup::new(tools.to_vec()) }
}
