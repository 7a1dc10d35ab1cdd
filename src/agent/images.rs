//! Images that a model cannot be sent: words stand for them, so that a conversation goes on with any model.
use crate::{
    log::Part,
    model::{Message, ModelInfo},
};

const BLIND: &str = "[An image stood here. This model takes no images.]";
const OLD: &str = "[An older image stood here. There are more than this model takes at once.]";

/// The messages as this model takes them: no images, or the newest ones that it takes at once.
pub fn fitting(mut messages: Vec<Message>, info: &ModelInfo) -> Vec<Message> {
    let (mut left, note) = if info.images { (info.limits.count, OLD) } else { (0, BLIND) };
    for message in messages.iter_mut().rev() {
        match message {
            Message::User { parts } => {
                for part in parts.iter_mut().rev().filter(|p| matches!(p, Part::Image(_))) {
                    match left.checked_sub(1) {
                        Some(less) => left = less,
                        None => *part = Part::Text { text: note.into() },
                    }
                }
            }
            Message::Result { images, text, .. } if !images.is_empty() => {
                let gone = images.len().saturating_sub(left);
                images.drain(..gone);
                left -= images.len();
                for _ in 0..gone {
                    text.push('\n');
                    text.push_str(note);
                }
            }
            Message::Result { .. } | Message::Assistant { .. } => {}
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{log::Image, model::ImageLimits};

    fn image(n: u8) -> Image {
        Image { mime: "image/png".into(), data: format!("data{n}").into(), uri: None }
    }
    fn messages() -> Vec<Message> {
        let result = Message::Result {
            provider_id: "c".into(),
            name: "read".into(),
            text: "shown".into(),
            images: vec![image(2), image(3)],
            failed: false,
        };
        vec![Message::User { parts: vec![Part::Image(image(1)), Part::Text { text: "see".into() }] }, result]
    }
    fn sent(images: bool, count: usize) -> Vec<u8> {
        let limits = ImageLimits { count, ..ImageLimits::default() };
        let fitted =
            format!("{:?}", fitting(messages(), &ModelInfo { images, limits, ..ModelInfo::default() }));
        let notes = fitted.matches("image stood here").count();
        let all: Vec<u8> = (1..=3).filter(|n| fitted.contains(&format!("data{n}"))).collect();
        assert_eq!(notes + all.len(), 3, "{fitted}");
        all
    }

    #[test]
    fn the_newest_images_stay() {
        assert_eq!(sent(true, 100), [1, 2, 3]);
        assert_eq!(sent(true, 2), [2, 3]);
        assert_eq!(sent(true, 1), [3]);
        assert!(sent(false, 100).is_empty());
    }
}
