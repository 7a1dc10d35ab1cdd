//! From ACP's prompt to ours. What is not advertised or not usable is refused by name.
use crate::log::{Image, Part};
use hermes_protocol::{acp, invalid_params};

/// The parts of a prompt. `images`: whether the session's model takes them.
///
/// # Errors
/// -32602 that names the block.
pub fn prompt(blocks: Vec<acp::ContentBlock>, images: bool) -> Result<Vec<Part>, acp::Error> {
    if blocks.is_empty() {
        return Err(invalid_params("prompt", "must have at least one block"));
    }
    blocks.into_iter().enumerate().map(|(i, block)| part(i, block, images)).collect()
}

fn part(i: usize, block: acp::ContentBlock, images: bool) -> Result<Part, acp::Error> {
    let refuse = |what: &str| Err(invalid_params(&format!("prompt[{i}]"), what));
    match block {
        acp::ContentBlock::Text(text) => Ok(Part::Text { text: text.text }),
        acp::ContentBlock::Image(_) if !images => refuse(
            "the model of this session does not take images; choose another model, or describe the image",
        ),
        acp::ContentBlock::Image(image) => picture(image).or_else(|why| refuse(&why)),
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

/// The largest image that is passed on, in bytes.
const IMAGE_LIMIT: usize = 5 * 1024 * 1024;

/// The bytes decide what an image is, not the declared type.
fn picture(image: acp::ImageContent) -> Result<Part, String> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(image.data.trim())
        .map_err(|_| "the image is not valid Base64".to_owned())?;
    if bytes.len() > IMAGE_LIMIT {
        return Err(format!("the image has {} bytes; the limit is {IMAGE_LIMIT}", bytes.len()));
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
    Ok(crate::agent::session::Instruction { source: "the editor".into(), text, replaces })
}
