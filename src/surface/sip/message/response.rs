//! Responses: those that come, and the words for those that go.

use super::request::required;
use super::{CSeq, Headers, Malformed, Via, name};

/// A response, typed as far as a client transaction needs it.
#[derive(Debug)]
pub struct Response {
    /// 100 to 699.
    pub status: u16,
    /// The branch of the top Via: the transaction.
    pub branch: String,
    /// CSeq: its method tells an INVITE's from a CANCEL's.
    pub cseq: CSeq,
}

impl Response {
    pub(super) fn from_parts(status: u16, headers: Headers) -> Result<Self, Malformed> {
        let via = Via::parse(required(&headers, name::VIA, "Missing Via")?)?;
        let branch = via.branch().ok_or(Malformed("Response without our branch"))?.to_owned();
        let cseq = CSeq::parse(required(&headers, name::CSEQ, "Missing CSeq")?)?;
        Ok(Self { status, branch, cseq })
    }
}

/// The reason phrase of a status that this box sends; its class's for others.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        183 => "Session Progress",
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        415 => "Unsupported Media Type",
        416 => "Unsupported URI Scheme",
        420 => "Bad Extension",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        491 => "Request Pending",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "Version Not Supported",
        600 => "Busy Everywhere",
        603 => "Decline",
        other => match other / 100 {
            1 => "Session Progress",
            2 => "OK",
            3 => "Redirection",
            4 => "Request Failure",
            5 => "Server Failure",
            _ => "Global Failure",
        },
    }
}
