//! What the lists of models say, in each of the forms that providers have. Pure: bytes in, rows out.
use super::row::ModelRow;
use crate::model::price::Price;
use serde_json::Value;

/// Models of one list that are kept.
const MOST: usize = 1_000;

/// The server behind an address, as its list gives it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Ollama,
    LlamaCpp,
    LmStudio,
    Other,
}

impl Server {
    /// By the name of the provider's row, or by `owned_by`: Ollama writes `library`, llama.cpp `llamacpp`,
    /// LM Studio `organization_owner`.
    pub fn of(provider: &str, list: &Value) -> Server {
        let owner = entries(list).next().and_then(|m| m.get("owned_by")?.as_str()).unwrap_or_default();
        match (provider, owner) {
            ("ollama", _) | (_, "library") => Server::Ollama,
            ("llamacpp", _) | (_, "llamacpp") => Server::LlamaCpp,
            ("lmstudio", _) | (_, "organization_owner") => Server::LmStudio,
            _ => Server::Other,
        }
    }
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    let models = list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array();
    models.into_iter().flatten()
}

/// The models of a `/models` answer that an agent can talk to.
pub fn rows(list: &Value) -> Vec<ModelRow> {
    // ChatGPT accounts list what is not to be shown.
    let shown = entries(list).filter(|m| !matches!(m["visibility"].as_str(), Some("hide" | "hidden")));
    shown.filter(|m| is_chat(m)).filter_map(row).filter(|r| chats(&r.id)).take(MOST).collect()
}

fn row(model: &Value) -> Option<ModelRow> {
    let text = |key: &str| model.get(key).and_then(Value::as_str).map(str::to_owned);
    let count = |at: &[&str]| at.iter().find_map(|at| model.pointer(at)?.as_u64().filter(|n| *n > 0));
    let id = text("id").or_else(|| text("slug")).or_else(|| text("name")).or_else(|| text("model"))?;
    Some(ModelRow {
        id: id.strip_prefix("models/").unwrap_or(&id).to_owned(),
        name: text("display_name").or_else(|| text("displayName")).or_else(|| text("name")),
        // What is in force comes before what the model could do.
        context: count(&[
            "/loaded_context_length",
            "/meta/n_ctx",
            "/top_provider/context_length",
            "/context_length",
            "/inputTokenLimit",
            "/max_input_tokens",
            "/context_window",
            "/max_model_len",
            "/max_context_length",
            "/meta/n_ctx_train",
        ]),
        input: None,
        output: count(&[
            "/top_provider/max_completion_tokens",
            "/outputTokenLimit",
            "/max_completion_tokens",
            "/max_tokens",
        ]),
        images: images(model),
        tools: tools(model),
        efforts: efforts(model),
        price: price(model),
    })
}

fn flag(model: &Value, at: &[&str]) -> Option<bool> {
    at.iter().find_map(|at| model.pointer(at)?.as_bool())
}

/// Whether a list of words has this one.
fn has(model: &Value, at: &str, word: &str) -> Option<bool> {
    model.pointer(at).and_then(Value::as_array).map(|l| l.iter().any(|v| v == word))
}

fn images(model: &Value) -> Option<bool> {
    has(model, "/architecture/input_modalities", "image")
        .or_else(|| flag(model, &["/capabilities/vision", "/supports_image_in"]))
        .or_else(|| flag(model, &["/capabilities/image_input/supported"]))
        // LM Studio tells by the kind of model, llama.cpp and Ollama by words.
        .or_else(|| {
            model.get("type").and_then(Value::as_str).and_then(|t| match t {
                "vlm" => Some(true),
                "llm" => Some(false),
                _ => None,
            })
        })
        .or_else(|| {
            let words = model.get("capabilities")?.as_array()?;
            Some(words.iter().any(|w| w == "multimodal" || w == "vision"))
        })
}

fn tools(model: &Value) -> Option<bool> {
    has(model, "/supported_parameters", "tools")
        .or_else(|| flag(model, &["/capabilities/function_calling"]))
        .or_else(|| {
            has(model, "/capabilities", "tools")
                .filter(|_| has(model, "/capabilities", "completion") == Some(true))
        })
        // LM Studio names it only where the model was trained for it; others it drives by the prompt.
        .or_else(|| has(model, "/capabilities", "tool_use").filter(|named| *named))
}

/// Least first, as they are chosen.
const LEVELS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

fn efforts(model: &Value) -> Option<Vec<String>> {
    let named = |is: &dyn Fn(&str) -> bool| -> Vec<String> {
        LEVELS.into_iter().filter(|l| is(l)).map(str::to_owned).collect()
    };
    // OpenRouter: <https://openrouter.ai/docs/api-reference/list-available-models>.
    if let Some(all) = model.pointer("/reasoning/supported_efforts").and_then(Value::as_array) {
        return Some(named(&|level| all.iter().any(|v| v == level)));
    }
    if has(model, "/supported_parameters", "reasoning") == Some(true) {
        return Some(named(&|level| ["low", "medium", "high"].contains(&level)));
    }
    // Anthropic: <https://platform.claude.com/docs/en/api/models>.
    let levels = model.pointer("/capabilities/effort")?;
    let found = named(&|level| levels.pointer(&format!("/{level}/supported")) == Some(&Value::Bool(true)));
    (!found.is_empty()).then_some(found)
}

/// OpenRouter's: dollars for one token, as texts. A negative one means that it depends.
fn price(model: &Value) -> Option<Price> {
    let dollars = |key: &str| {
        let one = model.pointer(&format!("/pricing/{key}"))?;
        let one = one.as_str().and_then(|s| s.parse::<f64>().ok()).or_else(|| one.as_f64())?;
        // Without the noise of the binary form: a millionth of a dollar for a million tokens is exact enough.
        (one >= 0.0).then(|| (one * 1e12).round() / 1e6)
    };
    Some(Price {
        input: dollars("prompt")?,
        cached: dollars("input_cache_read"),
        written: dollars("input_cache_write"),
        output: dollars("completion")?,
        above: None,
    })
}

/// What the list itself says of the kind of a model.
fn is_chat(model: &Value) -> bool {
    let no = has(model, "/supportedGenerationMethods", "generateContent") == Some(false)
        || flag(model, &["/capabilities/completion_chat", "/active"]) == Some(false)
        || has(model, "/architecture/output_modalities", "text") == Some(false)
        || model.get("type").and_then(Value::as_str).is_some_and(|t| t.contains("embedding"))
        || has(model, "/capabilities", "completion") == Some(false)
            && has(model, "/capabilities", "embedding") == Some(true);
    !no
}

/// Lists that say nothing of kinds hold models for other things too.
fn chats(id: &str) -> bool {
    const OTHER: [&str; 21] = [
        "embed",
        "whisper",
        "tts",
        "dall-e",
        "moderation",
        "realtime",
        "transcribe",
        "gpt-image",
        "-image",
        "sora",
        "rerank",
        "guard",
        "davinci",
        "babbage",
        "gpt-3.5-turbo-instruct",
        "-audio",
        "veo-",
        "imagen",
        "-ocr",
        "-search-",
        "lyria",
    ];
    let id = id.to_lowercase();
    !OTHER.iter().any(|word| id.contains(word))
}

/// Ollama's `/api/show`: what the model could do, and the window that its Modelfile sets.
/// <https://github.com/ollama/ollama/blob/main/docs/api.md#show-model-information>
pub fn ollama_show(id: &str, show: &Value) -> (ModelRow, Option<u64>) {
    let able = |word: &str| has(show, "/capabilities", word);
    let most = show.get("model_info").and_then(Value::as_object).and_then(|info| {
        info.iter().find(|(key, _)| key.ends_with(".context_length")).and_then(|(_, n)| n.as_u64())
    });
    let parameters = show.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let set = parameters.lines().find_map(|line| {
        let (name, value) = line.trim().split_once(char::is_whitespace)?;
        (name == "num_ctx").then(|| value.trim().parse().ok())?
    });
    let row = ModelRow { images: able("vision"), tools: able("tools"), context: most, ..ModelRow::named(id) };
    (row, set)
}

/// Ollama's `/api/ps`: the windows of the models that are loaded.
pub fn ollama_loaded(ps: &Value) -> Vec<(String, u64)> {
    let models = ps.get("models").and_then(Value::as_array).into_iter().flatten();
    models
        .filter_map(|m| {
            let id = m.get("model").or_else(|| m.get("name"))?.as_str()?;
            Some((id.to_owned(), m.get("context_length")?.as_u64()?))
        })
        .collect()
}

/// LM Studio's `/api/v0/models`, loaded ones first. What a model could take says nothing of how it will be loaded.
pub fn lm_studio(list: &Value) -> Vec<ModelRow> {
    let loaded = |id: &str| entries(list).any(|m| m["id"] == id && m["state"] == "loaded");
    let mut all = rows(list);
    for row in &mut all {
        if !loaded(&row.id) {
            row.context = None;
        }
    }
    all.sort_by_key(|row| !loaded(&row.id));
    all
}

/// llama.cpp's `/props`: the window of one slot, and whether it takes images.
pub fn llamacpp_props(props: &Value) -> (Option<u64>, Option<bool>) {
    let window = props.pointer("/default_generation_settings/n_ctx").and_then(Value::as_u64);
    (window.filter(|n| *n > 0), flag(props, &["/modalities/vision"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn only(list: Value) -> ModelRow {
        let mut all = rows(&list);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn openrouter_names_prices_and_efforts() {
        let row = only(json!({"data": [
            {"id": "a/b", "name": "B", "context_length": 200000,
             "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
             "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
             "top_provider": {"context_length": 180000, "max_completion_tokens": 64000},
             "supported_parameters": ["tools", "reasoning"],
             "reasoning": {"supported_efforts": ["high", "low"]}},
            {"id": "a/pictures", "context_length": 1, "architecture": {"output_modalities": ["image"]}}]}));
        assert_eq!((row.context, row.output), (Some(180_000), Some(64_000)));
        assert_eq!((row.images, row.tools), (Some(true), Some(true)));
        assert_eq!(row.efforts.unwrap(), ["low", "high"]);
        let price = row.price.unwrap();
        assert_eq!((price.input, price.cached, price.written, price.output), (3.0, Some(0.3), None, 15.0));
        let auto = only(json!({"data": [{"id": "auto", "pricing": {"prompt": "-1", "completion": "-1"}}]}));
        assert_eq!(auto.price, None);
    }

    #[test]
    fn each_provider_has_its_own_form() {
        let gemini = only(json!({"models": [
            {"name": "models/gemini-x", "displayName": "X", "inputTokenLimit": 1048576, "outputTokenLimit": 65536,
             "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/embedding-001", "supportedGenerationMethods": ["embedContent"]}]}));
        assert_eq!(
            (gemini.id.as_str(), gemini.context, gemini.output),
            ("gemini-x", Some(1_048_576), Some(65_536))
        );
        let mistral = only(json!({"data": [
            {"id": "m", "max_context_length": 131072,
             "capabilities": {"completion_chat": true, "function_calling": true, "vision": false}},
            {"id": "mistral-embed", "capabilities": {"completion_chat": false}}]}));
        assert_eq!(
            (mistral.tools, mistral.images, mistral.context),
            (Some(true), Some(false), Some(131_072))
        );
        let groq = only(json!({"data": [
            {"id": "g", "context_window": 131072, "max_completion_tokens": 32768, "active": true},
            {"id": "whisper-large-v3", "context_window": 448}, {"id": "old", "active": false}]}));
        assert_eq!((groq.context, groq.output), (Some(131_072), Some(32_768)));
        let claude = only(json!({"data": [{"id": "c", "display_name": "C", "max_input_tokens": 200000,
            "max_tokens": 64000, "capabilities": {"image_input": {"supported": true},
            "effort": {"supported": true, "low": {"supported": true}, "max": {"supported": false}}}}]}));
        assert_eq!((claude.images, claude.efforts), (Some(true), Some(vec!["low".to_owned()])));
        let kimi = only(json!({"data": [{"id": "k", "context_length": 262144, "supports_image_in": true}]}));
        assert_eq!((kimi.context, kimi.images), (Some(262_144), Some(true)));
        let vllm = only(json!({"data": [{"id": "v", "owned_by": "vllm", "max_model_len": 32768}]}));
        assert_eq!((vllm.context, vllm.images), (Some(32_768), None));
        let studio = lm_studio(&json!({"data": [
            {"id": "n", "type": "llm", "state": "not-loaded", "max_context_length": 131072},
            {"id": "l", "type": "vlm", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 4096},
            {"id": "e", "type": "embeddings"}]}));
        let told: Vec<_> = studio.iter().map(|m| (m.id.as_str(), m.context, m.images)).collect();
        assert_eq!(told, [("l", Some(4_096), Some(true)), ("n", None, Some(false))]);
    }

    #[test]
    fn what_is_no_list_is_empty() {
        for list in
            [json!(null), json!("x"), json!({"data": 3}), json!({"error": {"message": "no"}}), json!([1, {}])]
        {
            assert!(rows(&list).is_empty(), "{list}");
        }
    }

    #[test]
    fn local_servers_tell_the_window_in_force() {
        let show = json!({"model_info": {"qwen3.context_length": 40960, "general.name": "q"},
            "capabilities": ["completion", "tools"], "parameters": "stop  \"x\"\nnum_ctx    8192"});
        let (row, set) = ollama_show("q", &show);
        assert_eq!(
            (row.context, row.tools, row.images, set),
            (Some(40_960), Some(true), Some(false), Some(8_192))
        );
        assert_eq!(ollama_show("q", &json!({"parameters": 1})).1, None);
        let ps = json!({"models": [{"name": "q:latest", "model": "q:latest", "context_length": 4096}, {"name": "old"}]});
        assert_eq!(ollama_loaded(&ps), [("q:latest".to_owned(), 4_096)]);
        let props = json!({"default_generation_settings": {"n_ctx": 1024}, "modalities": {"vision": false}});
        assert_eq!(llamacpp_props(&props), (Some(1_024), Some(false)));
        assert_eq!(
            Server::of("mine", &json!({"data": [{"id": "x", "owned_by": "library"}]})),
            Server::Ollama
        );
        assert_eq!(Server::of("mine", &json!({"data": [{"id": "x"}]})), Server::Other);
    }
}
