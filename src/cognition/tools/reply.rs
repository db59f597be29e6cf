//! What a tool's HTTP answer means for the operation. Pure: status, headers and body in, verdict out.
//!
//! The rule is RFC 9110's meaning of a status, read so that "provably not executed" is only claimed where the tool
//! itself said so: many answers come from something between the box and the tool.

use recado_core::ledger::Executed;
use reqwest::StatusCode;
use serde_json::{Value, json};

/// What a status says before the body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It took effect, and the body is the result (200, 201, 203).
    Result,
    /// It took effect and there is nothing to say about it (204, 205).
    NoContent,
    /// The tool took it; the result comes later (202).
    Deferred,
    /// It did not go well.
    Failed {
        /// Whether the tool may have executed it.
        executed: Executed,
        /// Whether another attempt may help.
        retryable: bool,
    },
}

/// The meaning of `status` as the answer to attempt number `attempt` (from 1).
///
/// | status | executed | retryable | because |
/// | --- | --- | --- | --- |
/// | 307, 308 | no | no | the method is kept, so the request was not carried out here (RFC 9110 15.4.8, 15.4.9) |
/// | other 3xx | maybe | no | 303, and in practice 301 and 302, also follow a request that *was* carried out |
/// | 408, 425, 429 | no | yes | not read in time, too early, too many: each says "later" (RFC 9110, 8470, 6585) |
/// | 409, first attempt | no | no | the tool's own conflict: nobody has used this key before |
/// | 409, later attempt | maybe | yes | an earlier attempt under this key may still be running there |
/// | other 4xx | no | no | the tool refused the request as it is |
/// | 501, 505 | maybe | no | asking again does not help; a gateway may say it for a tool that acted |
/// | other 5xx | maybe | yes | 503 too: gateways send it also when the tool broke off in the middle |
/// | anything else | maybe | no | no meaning that could be relied on |
pub(super) fn judge(status: StatusCode, attempt: u32) -> Verdict {
    let failed = |executed, retryable| Verdict::Failed { executed, retryable };
    match status.as_u16() {
        200 | 201 | 203 => Verdict::Result,
        202 => Verdict::Deferred,
        204 | 205 => Verdict::NoContent,
        307 | 308 => failed(Executed::No, false),
        408 | 425 | 429 => failed(Executed::No, true),
        409 if attempt > 1 => failed(Executed::Maybe, true),
        400..=499 => failed(Executed::No, false),
        501 | 505 => failed(Executed::Maybe, false),
        500..=599 => failed(Executed::Maybe, true),
        _ => failed(Executed::Maybe, false),
    }
}

/// A result as the ledger's templates see it: an object. Anything else becomes its `value`.
pub(super) fn result_object(result: Value) -> Value {
    if result.is_object() { result } else { json!({ "value": result }) }
}

/// The largest result that is taken, with the answer or by callback (bytes): it is stored and told, not archived.
pub(super) const RESULT_BYTES_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_the_meaning_that_the_table_gives_it() {
        use Executed::{Maybe, No};
        let failed = |executed, retryable| Verdict::Failed { executed, retryable };
        let table = [
            (200, 1, Verdict::Result),
            (201, 1, Verdict::Result),
            (202, 1, Verdict::Deferred),
            (204, 1, Verdict::NoContent),
            (206, 1, failed(Maybe, false)),
            (302, 1, failed(Maybe, false)),
            (303, 1, failed(Maybe, false)),
            (307, 1, failed(No, false)),
            (308, 1, failed(No, false)),
            (400, 1, failed(No, false)),
            (404, 2, failed(No, false)),
            (408, 1, failed(No, true)),
            (409, 1, failed(No, false)),
            (409, 2, failed(Maybe, true)),
            (425, 1, failed(No, true)),
            (429, 1, failed(No, true)),
            (500, 1, failed(Maybe, true)),
            (501, 1, failed(Maybe, false)),
            (503, 1, failed(Maybe, true)),
            (505, 1, failed(Maybe, false)),
            (999, 1, failed(Maybe, false)),
        ];
        for (status, attempt, verdict) in table {
            assert_eq!(judge(StatusCode::from_u16(status).unwrap(), attempt), verdict, "{status}, attempt {attempt}");
        }
    }

    #[test]
    fn a_result_that_is_no_object_becomes_the_value_of_one() {
        assert_eq!(result_object(json!({ "a": 1 })), json!({ "a": 1 }));
        assert_eq!(result_object(json!([1, 2])), json!({ "value": [1, 2] }));
        assert_eq!(result_object(Value::Null), json!({ "value": null }));
    }
}
