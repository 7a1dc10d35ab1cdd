//! From ACP's prompt to ours. What is not advertised or not usable is refused by name.
use crate::{
    log::{Image, Part},
    model::ImageLimits,
};
use hermes_protocol::{acp, invalid_params};

/// The parts of a prompt. `images`: what the session's model takes of them; `None`: nothing.
///
/// # Errors
/// -32602 that names the block.
pub fn prompt(blocks: Vec<acp::ContentBlock>, images: Option<ImageLimits>) -> Result<Vec<Part>, acp::Error> {
    if blocks.is_empty() {
        return Err(invalid_params("prompt", "must have at least one block"));
    }
    let is_image = |block: &acp::ContentBlock| matches!(block, acp::ContentBlock::Image(_));
    if let Some(limits) = images
        && let Some((i, _)) = blocks.iter().enumerate().filter(|(_, b)| is_image(b)).nth(limits.count)
    {
        let why = format!("the model of this session takes at most {} images at once", limits.count);
        return Err(invalid_params(&format!("prompt[{i}]"), &why));
    }
    blocks.into_iter().enumerate().map(|(i, block)| part(i, block, images)).collect()
}

fn part(i: usize, block: acp::ContentBlock, images: Option<ImageLimits>) -> Result<Part, acp::Error> {
    let refuse = |what: &str| Err(invalid_params(&format!("prompt[{i}]"), what));
    match block {
        acp::ContentBlock::Text(text) => Ok(Part::Text { text: text.text }),
        acp::ContentBlock::Image(image) => match images {
            Some(limits) => picture(image, limits.bytes).or_else(|why| refuse(&why)),
            None => refuse(
                "the model of this session does not take images; choose another model, or describe the image",
            ),
        },
        acp::ContentBlock::ResourceLink(link) => {
            Ok(Part::Link { uri: link.uri, name: link.name, mime: link.mime_type })
        }
        acp::ContentBlock::Resource(resource) => match resource.resource {
            acp::EmbeddedResourceResource::TextResourceContents(text) => {
                Ok(Part::Embedded { uri: text.uri, mime: text.mime_type, text: text.text })
            }
            acp::EmbeddedResourceResource::BlobResourceContents(blob) => Ok(Part::Text {
                text: format!(
                    "[binary resource {} ({}), {} bytes: not readable here]",
                    blob.uri,
                    blob.mime_type.as_deref().unwrap_or("type unknown"),
                    blob.blob.len() / 4 * 3
                ),
            }),
            _ => refuse("this kind of resource is not supported"),
        },
        acp::ContentBlock::Audio(_) => refuse("audio is not supported"),
        _ => refuse("this kind of content is not supported"),
    }
}

/// The bytes decide what an image is, not the declared type.
fn picture(image: acp::ImageContent, limit: usize) -> Result<Part, String> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(image.data.trim())
        .map_err(|_| "the image is not valid Base64".to_owned())?;
    if bytes.len() > limit {
        return Err(format!(
            "the image has {} bytes; this model takes {limit} at most: send a smaller one",
            bytes.len()
        ));
    }
    let mime = infer::get(&bytes).map(|t| t.mime_type()).unwrap_or("unknown");
    if !["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&mime) {
        return Err("the image is not a PNG, JPEG, GIF or WebP".into());
    }
    Ok(Part::Image(Image { mime: mime.into(), data: image.data.trim().into(), uri: image.uri }))
}

/// The text of a client's system prompt.
///
/// # Errors
/// -32602: a system prompt that cannot be used must fail the request, not be ignored.
pub fn system_prompt(prompt: acp::SystemPrompt) -> Result<crate::agent::session::Instruction, acp::Error> {
    let replaces = match prompt.mode {
        acp::SystemPromptMode::Append => false,
        acp::SystemPromptMode::Override => true,
        _ => return Err(invalid_params("systemPrompt.mode", "must be `append` or `override`")),
    };
    let mut text = String::new();
    for (i, block) in prompt.content.into_iter().enumerate() {
        match block {
            acp::ContentBlock::Text(t) => {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(&t.text);
            }
            _ => return Err(invalid_params(&format!("systemPrompt.content[{i}]"), "only text can be used")),
        }
    }
    Ok(crate::agent::session::Instruction { source: "the editor".into(), text, replaces, note: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    fn image(bytes: &[u8], mime: &str) -> acp::ContentBlock {
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        acp::ContentBlock::Image(acp::ImageContent::new(data, mime))
    }
    fn why(blocks: Vec<acp::ContentBlock>, images: Option<ImageLimits>) -> String {
        prompt(blocks, images).unwrap_err().message
    }

    #[test]
    fn the_bytes_say_what_an_image_is_and_limits_hold() {
        let limits = ImageLimits { bytes: 20, count: 2 };
        let parts = prompt(vec![image(PNG, "image/jpeg")], Some(limits)).unwrap();
        assert!(matches!(&parts[0], Part::Image(i) if i.mime == "image/png"), "{parts:?}");
        let many = (0..3).map(|_| image(PNG, "image/png")).collect();
        assert!(why(many, Some(limits)).contains("`prompt[2]`: the model of this session takes at most 2"));
        assert!(
            why(vec![image(&[PNG, PNG].concat(), "image/png")], Some(limits)).contains("takes 20 at most")
        );
        assert!(why(vec![image(b"<svg/>", "image/png")], Some(limits)).contains("not a PNG"));
        let broken = acp::ContentBlock::Image(acp::ImageContent::new("!!", "image/png"));
        assert!(why(vec![broken], Some(limits)).contains("Base64"));
        assert!(why(vec![image(PNG, "image/png")], None).contains("does not take images"));
    }
}
