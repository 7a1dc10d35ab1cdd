//! What is done about each kind of failure: one table. Who does it: `http` strips, `retry` waits, the turn
//! compacts and falls back.
use super::ErrorKind;

/// What helps against a kind of failure, in the order in which it is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Sent again after a wait, while nothing was said; what was said is gone on with.
    pub retry: bool,
    /// Sent once more without what was refused, where the refusal names it.
    pub strip: bool,
    /// Sent once more with a shorter conversation.
    pub compact: bool,
    /// Another key of the same provider may do.
    pub rotate: bool,
    /// Another model may do.
    pub fall_back: bool,
}

/// The table.
pub fn of(kind: ErrorKind) -> Policy {
    let none = Policy::default();
    match kind {
        ErrorKind::Rotated => Policy { retry: true, ..none },
        ErrorKind::Auth | ErrorKind::Quota => Policy { rotate: true, fall_back: true, ..none },
        ErrorKind::RateLimit => Policy { retry: true, rotate: true, fall_back: true, ..none },
        ErrorKind::Overloaded | ErrorKind::Loading => {
            Policy { retry: true, strip: true, fall_back: true, ..none }
        }
        ErrorKind::Network | ErrorKind::Timeout => Policy { retry: true, fall_back: true, ..none },
        ErrorKind::Malformed => Policy { retry: true, fall_back: true, ..none },
        ErrorKind::TooLong => Policy { compact: true, ..none },
        ErrorKind::StaleReasoning => Policy { strip: true, fall_back: true, ..none },
        ErrorKind::BadRequest => Policy { strip: true, ..none },
        ErrorKind::ModelNotFound => Policy { strip: true, fall_back: true, ..none },
        ErrorKind::Tls => Policy { fall_back: true, ..none },
        // Somebody else's model is not a way around a no.
        ErrorKind::Refused => none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_is_not_tried_again_and_what_may_pass_is() {
        use ErrorKind::*;
        for kind in [Auth, Quota, TooLong, Refused, StaleReasoning, BadRequest, ModelNotFound, Tls] {
            assert!(!of(kind).retry, "{kind:?}");
        }
        assert!(of(Rotated).retry);
        for kind in [RateLimit, Overloaded, Loading, Network, Timeout, Malformed] {
            assert!(of(kind).retry && of(kind).fall_back, "{kind:?}");
        }
        for kind in [Auth, Quota, ModelNotFound] {
            assert!(of(kind).fall_back, "{kind:?}");
        }
        assert!(of(TooLong).compact && !of(TooLong).fall_back);
        assert!(!of(Refused).fall_back && !of(BadRequest).fall_back);
    }
}
