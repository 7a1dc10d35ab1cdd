//! A request without what a provider just refused, to be sent once more: reasoning that is stale, images.
use super::{ErrorKind, Message, Request, failure::Failure};
use crate::log::{Block, Part};

const NO_IMAGE: &str = "[An image stood here. This model takes no images.]";

/// The request without what the failure is about; `None`: there is nothing of it in there.
pub fn without(failure: &Failure, request: &Request) -> Option<Request> {
    if failure.kind == ErrorKind::StaleReasoning {
        return without_reasoning(request);
    }
    let said = failure.detail.to_lowercase();
    let refused =
        matches!(failure.kind, ErrorKind::BadRequest | ErrorKind::Overloaded | ErrorKind::ModelNotFound);
    let images = ["image", "vision", "multimodal"].iter().any(|w| said.contains(w))
        && ["support", "accept", "mmproj", "not allowed", "unknown variant", "expected"]
            .iter()
            .any(|w| said.contains(w));
    if refused && images { without_images(request) } else { None }
}

fn without_reasoning(request: &Request) -> Option<Request> {
    let mut less = request.clone();
    let mut found = false;
    for message in &mut less.messages {
        let Message::Assistant { blocks } = message else { continue };
        for block in blocks {
            let native = match block {
                Block::Thinking { native, .. } => native,
                Block::Call(call) => &mut call.native,
                Block::Text { .. } => continue,
            };
            found |= native.take().is_some();
        }
    }
    found.then_some(less)
}

fn without_images(request: &Request) -> Option<Request> {
    let mut less = request.clone();
    let mut found = false;
    for message in &mut less.messages {
        match message {
            Message::User { parts } => {
                for part in parts.iter_mut().filter(|p| matches!(p, Part::Image(_))) {
                    *part = Part::Text { text: NO_IMAGE.into() };
                    found = true;
                }
            }
            Message::Result { images, text, .. } if !images.is_empty() => {
                images.clear();
                text.push('\n');
                text.push_str(NO_IMAGE);
                found = true;
            }
            Message::Result { .. } | Message::Assistant { .. } => {}
        }
    }
    found.then_some(less)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{log::Native, model::dialect::matrix};

    #[test]
    fn what_was_refused_is_taken_out_once() {
        let own = Native { dialect: "x".into(), value: serde_json::json!({"signature": "S"}) };
        let request = matrix::request(matrix::history(own, None));
        let stale = Failure::new(ErrorKind::StaleReasoning, "Invalid `signature` in `thinking` block");
        let less = without(&stale, &request).unwrap();
        assert!(!format!("{:?}", less.messages).contains("signature"));
        assert!(without(&stale, &less).is_none());
        for said in [
            "image input is not supported - hint: you may need to provide the mmproj",
            "This model does not support images",
        ] {
            let failure = Failure::new(ErrorKind::BadRequest, said);
            let less = without(&failure, &request).unwrap();
            assert!(!format!("{:?}", less.messages).contains("aGk="));
            assert!(format!("{:?}", less.messages).contains("takes no images"));
            assert!(without(&failure, &less).is_none());
        }
        assert!(without(&Failure::new(ErrorKind::BadRequest, "bad"), &request).is_none());
        assert!(without(&Failure::new(ErrorKind::RateLimit, "image support"), &request).is_none());
    }
}
